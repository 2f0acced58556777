"""Infrastructure of eagle3-kit: CDKTF stacks `bootstrap`, `small`, `medium` and `large`."""
