"""One module a service: which resource types the local AWS can make, and how.

Adding a type: find the module of its service (or add `adapters/<service>.py`) and put an entry into its
`RESOURCES: dict[str, Made | Recorded | Adapter]`; a data source goes into `DATA: dict[str, DataReader]`. Modules are
found by themselves.

    "aws_sqs_queue": Made(
        service="sqs",
        create=call("create_queue", QueueName="{name}", Attributes=_attributes, tags="{tags_all}"),
        id="QueueUrl",
        read=call("get_queue_attributes", QueueUrl="{id}", AttributeNames=["QueueArn"]),
        found="Attributes",
        outputs={"arn": "QueueArn", "url": "{id}"},
        update=[call("set_queue_attributes", QueueUrl="{id}", Attributes=_attributes)],
        delete=call("delete_queue", QueueUrl="{id}"),
    )

- `call(operation, Member=template)` sends exactly these members; `fill(operation, ...)` also fills every other member
  of the request from the attribute of the same name, walking botocore's input shapes: `KmsKeyId` from `kms_key_id`, a
  structure from a block, a list from blocks, `Tags` from `tags_all` in whichever of the usual forms the service takes.
- A template is a constant or text with `{attribute}`, `{block.0.attribute}`, and the facts `{region}`, `{partition}`,
  `{account_id}`, `{dns_suffix}`. A template of one field only keeps the value's type; one that comes to None drops its
  member. A function takes the state and returns the value.
- Where an empty block means something (`allow {}`), `blocks.request(service, shape, blocks)` writes the member.
- `id` and `outputs` take paths (JMESPath) into the answer of `create`, or from `found` in the answer of `read`; with
  a brace they are templates.
- `read` decides whether the resource is still there: an error like "not found", or nothing at `found`, means gone.
- A computed attribute without an output takes the member of the same name of what was found, else it is null.
- `call(..., each="route")` is done for every item of a list; a function `(cloud, prior, planned)` may stand wherever
  `more` and `update` hold calls, a function `(cloud, state)` for `id` and an output.
- `update` holds calls, each with `when=[attributes]` or for any change. Tags are usually a call with
  `when=["tags_all"]`. An attribute that cannot change in place belongs into `replacing.py`.
- Errors like DependencyViolation and DeleteConflict are retried on delete for a few seconds.
- What the local AWS does not implement is a `Recorded(reason="...", id="vo-{token}", outputs={"arn": "..."})`. A
  `Made` whose create answers "not implemented" becomes recorded on its own and is reported with that reason.
- Anything odd: a class with the methods of `Adapter`.
- A data source: `def read(cloud: Cloud, config: State) -> Mapping[str, Any]`, returning its computed attributes.
"""
