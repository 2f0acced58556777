"""A text on which int8 layers are calibrated: prose, dialogue, numbers and code, written for this project."""

from __future__ import annotations

CALIBRATION_TEXT = """\
The morning train left the station at 7:45, eleven minutes late. "Is this seat taken?" she asked, and put her bag on the
floor. He shook his head. Outside, the fields were white, and a river ran beside the line for three miles or so.

Question: A baker sells 24 loaves a day at $3.50 each. How much does he take in a week? Answer: 24 x 3.5 = 84 dollars a
day, and 84 x 7 = 588 dollars in a week. Therefore, the answer is 588.

Here are some tips for writing clearly:
1. **Say one thing at a time.** Short sentences are easier to read.
2. **Prefer plain words**; for example, "use" instead of "utilise".

def mean(values: list[float]) -> float:
    if not values:
        raise ValueError("no values")
    return sum(values) / len(values)

Photosynthesis is the process by which plants turn light, water and carbon dioxide into sugar and oxygen. However, only
about 3% of the light that reaches a leaf is used.
"""
