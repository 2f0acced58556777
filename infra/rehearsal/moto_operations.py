"""Operations that `moto` does not have and the real provider cannot do without: on budgets and on scalable targets.

Knows internals of moto, and nothing of our stacks. Runs inside the process of the local AWS.
"""

from __future__ import annotations

import json
from typing import Any


def add_target_tags(responses: Any) -> None:
    """Give Application Auto Scaling the tags of its targets."""
    kind = responses.ApplicationAutoScalingResponse
    register = kind.register_scalable_target

    def tags_of(self: Any) -> dict[str, str]:
        by_arn: dict[str, dict[str, str]] = vars(self.applicationautoscaling_backend).setdefault("target_tags", {})
        return by_arn.setdefault(self._get_param("ResourceARN"), {})

    def register_scalable_target(self: Any) -> str:
        answer: str = register(self)
        if given := self._get_param("Tags"):
            by_arn = vars(self.applicationautoscaling_backend).setdefault("target_tags", {})
            by_arn[json.loads(answer)["ScalableTargetARN"]] = dict(given)
        return answer

    def list_tags_for_resource(self: Any) -> str:
        return json.dumps({"Tags": tags_of(self)})

    def tag_resource(self: Any) -> str:
        tags_of(self).update(self._get_param("Tags"))
        return json.dumps({})

    def untag_resource(self: Any) -> str:
        for name in self._get_param("TagKeys"):
            tags_of(self).pop(name, None)
        return json.dumps({})

    for operation in (register_scalable_target, list_tags_for_resource, tag_resource, untag_resource):
        setattr(kind, operation.__name__, operation)


def add_budget_operations(responses: Any) -> None:
    """Give budgets tags, changes, and the subscribers of their notifications."""
    kind = responses.BudgetsResponse
    create = kind.create_budget

    def create_budget(self: Any) -> str:
        answer: str = create(self)
        budget = _named(self, self._get_param("Budget")["BudgetName"])
        budget.tags = {tag["Key"]: tag["Value"] for tag in self._get_param("ResourceTags") or []}
        return answer

    def update_budget(self: Any) -> str:
        changed = self._get_param("NewBudget")
        _named(self, changed["BudgetName"]).budget.update(changed)
        return json.dumps({})

    def describe_subscribers_for_notification(self: Any) -> str:
        asked = self._get_param("Notification")
        found = [
            subscriber
            for notification in _named(self, self._get_param("BudgetName")).notifications
            if all(notification.details.get(name) == value for name, value in asked.items() if name in _IDENTITY)
            for subscriber in notification.subscribers
        ]
        return json.dumps({"Subscribers": found})

    def list_tags_for_resource(self: Any) -> str:
        tags = _named(self, _name(self)).tags
        return json.dumps({"ResourceTags": [{"Key": name, "Value": value} for name, value in tags.items()]})

    def tag_resource(self: Any) -> str:
        _named(self, _name(self)).tags |= {tag["Key"]: tag["Value"] for tag in self._get_param("ResourceTags")}
        return json.dumps({})

    def untag_resource(self: Any) -> str:
        for name in self._get_param("ResourceTagKeys"):
            _named(self, _name(self)).tags.pop(name, None)
        return json.dumps({})

    for operation in (
        create_budget, update_budget, describe_subscribers_for_notification, list_tags_for_resource, tag_resource,
        untag_resource,
    ):  # fmt: skip
        setattr(kind, operation.__name__, operation)


# By these AWS tells the notifications of a budget apart.
_IDENTITY = ("NotificationType", "ComparisonOperator", "Threshold")


def _name(response: Any) -> str:
    """Name of a budget out of its ARN."""
    return str(response._get_param("ResourceARN")).rpartition("/")[2]


def _named(response: Any, name: str) -> Any:
    response.backend.describe_budget(response.current_account, name)  # raises if there is none
    return response.backend.budgets[response.current_account][name]
