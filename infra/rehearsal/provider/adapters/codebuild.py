"""Build projects."""

from __future__ import annotations

from infra.rehearsal.provider.adapter import Made, call, fill

RESOURCES = {
    "aws_codebuild_project": Made(
        service="codebuild",
        create=fill("create_project", timeoutInMinutes="{build_timeout}", queuedTimeoutInMinutes="{queued_timeout}"),
        id="project.arn",
        read=call("batch_get_projects", names=["{name}"]),
        found="projects[0]",
        update=[fill("update_project", timeoutInMinutes="{build_timeout}", queuedTimeoutInMinutes="{queued_timeout}")],
        delete=call("delete_project", name="{name}"),
    ),
}
