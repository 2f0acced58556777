"""Schemas of the stand-in provider: read out of the bindings, the same as the real provider's where it matters."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from pathlib import Path

import botocore
import botocore.session
import pytest

from eagle3.errors import ConfigError
from infra.rehearsal.provider import adapters, bindings
from infra.rehearsal.provider.adapter import Call, Made, Recorded
from infra.rehearsal.provider.bindings import PROVIDER, Bindings, installed
from infra.rehearsal.provider.in_use import types_in_use
from infra.rehearsal.provider.registry import collect
from infra.rehearsal.provider.replacing import immutable
from infra.rehearsal.provider.schema import Block


@pytest.fixture(scope="module")
def cdktf(tmp_path_factory) -> Bindings:
    return installed("cdktf", tmp_path_factory.mktemp("schemas"))


@cache
def served(reader: Bindings) -> dict[str, Block]:
    """Schemas of every type that an adapter serves."""
    registry = collect()
    return reader.schemas({*registry.resources, *(f"data.{name}" for name in registry.data), PROVIDER})


def flags(block: Block, name: str) -> str:
    """Initials of what an attribute is: required, optional, computed."""
    attribute = block.attributes[name]
    return "r" * attribute.required + "o" * attribute.optional + "c" * attribute.computed


def test_attributes_are_required_optional_or_computed(cdktf):
    """Flags and types are those of the real provider."""
    queue = cdktf.schemas(["aws_sqs_queue"])["aws_sqs_queue"]
    expected = {"arn": "c", "name": "oc", "delay_seconds": "o", "tags": "o", "tags_all": "oc", "region": "oc"}
    assert {name: flags(queue, name) for name in expected} == expected
    assert queue.attributes["tags"].type == ["map", "string"]
    assert queue.attributes["delay_seconds"].type == "number"
    assert flags(cdktf.schemas(["aws_iam_role"])["aws_iam_role"], "assume_role_policy") == "r"


def test_blocks_say_how_often_they_stand(cdktf):
    """A block is single, a list or a set, once at most or not, needed or not."""
    cluster = cdktf.schemas(["aws_eks_cluster"])["aws_eks_cluster"]
    vpc, timeouts = cluster.blocks["vpc_config"], cluster.blocks["timeouts"]
    assert (vpc.nesting, vpc.minimum, vpc.maximum) == ("list", 1, 1)
    assert vpc.block.attributes["subnet_ids"].type == ["set", "string"]
    assert flags(vpc.block, "cluster_security_group_id") == "c"
    assert timeouts.nesting == "single"
    rule = cdktf.schemas(["aws_wafv2_web_acl"])["aws_wafv2_web_acl"].blocks["rule"]
    assert (rule.nesting, rule.maximum) == ("set", 0)


def test_computed_objects_are_attributes(cdktf):
    """What AWS fills is an attribute of objects, not a block: so does the real provider, and Terraform checks it so."""
    read = cdktf.schemas(["aws_eks_cluster", "aws_security_group"])
    authority = read["aws_eks_cluster"].attributes["certificate_authority"]
    assert authority.type == ["list", ["object", {"data": "string"}]]
    ingress = read["aws_security_group"].attributes["ingress"]
    assert ingress.type[0] == "set"
    assert ingress.type[1][1]["from_port"] == "number"


def test_open_part_is_described(cdktf):
    """The statement of a firewall's rule, which the bindings leave open, has the blocks of the real provider."""
    rule = cdktf.schemas(["aws_wafv2_web_acl"])["aws_wafv2_web_acl"].blocks["rule"].block
    statement = rule.blocks["statement"]
    managed = statement.block.blocks["managed_rule_group_statement"].block
    assert (flags(managed, "name"), flags(managed, "vendor_name"), flags(managed, "version")) == ("r", "r", "o")
    nested = statement.block.blocks["and_statement"].block.blocks["statement"].block
    assert "byte_match_statement" in nested.blocks
    assert "managed_rule_group_statement" not in nested.blocks


def test_provider_configuration(cdktf):
    """The provider takes a region, default tags and endpoints."""
    block = cdktf.schemas([PROVIDER])[PROVIDER]
    assert flags(block, "region") == "o"
    assert block.blocks["default_tags"].block.attributes["tags"].type == ["map", "string"]
    assert "sagemaker" in block.blocks["endpoints"].block.attributes


def test_reading_is_kept(cdktf, monkeypatch):
    """What was read once needs the tarball no more; a type without a schema kept does."""
    before = cdktf.schemas(["aws_kms_key"])
    again = Bindings(cdktf.package, cdktf.folder, cdktf.cache)
    monkeypatch.setattr(bindings.tarfile, "open", lambda *_: pytest.fail("the tarball was opened"))
    assert again.schemas(["aws_kms_key"]) == before
    with pytest.raises(pytest.fail.Exception):
        again.schemas(["aws_kms_grant"])


def test_unknown_type_is_refused(cdktf):
    """A type that the bindings do not have is an error that names it."""
    assert "aws_kms_keys" not in cdktf.types
    with pytest.raises(ConfigError, match="kms_keys"):
        cdktf.schemas(["aws_kms_keys"])


def test_both_frameworks_name_their_provider(cdktf, tmp_path):
    """The provider's version is read out of the bindings, of cdktf and of cdktn."""
    fork = installed("cdktn", tmp_path)
    assert cdktf.provider_version.startswith("6.")
    assert fork.provider_version.startswith("6.")
    assert fork.provider_version != cdktf.provider_version
    assert flags(fork.schemas(["aws_sqs_queue"])["aws_sqs_queue"], "name") == "oc"
    with pytest.raises(ConfigError, match="cdktf, cdktn"):
        installed("cdk8s", tmp_path)


def test_types_are_found_in_the_folder(tmp_path, cdktf):
    """Types of the configuration, of the state and those that are named are served, and no others."""
    (tmp_path / "cdk.tf.json").write_text('{"resource": {"aws_vpc": {}}, "data": {"aws_region": {}}}')
    (tmp_path / "terraform.tfstate").write_text('{"type": "aws_sqs_queue"}')
    found = types_in_use(tmp_path, "aws_kms_key,aws_nothing", cdktf.types)
    assert found == {"aws_vpc", "data.aws_vpc", "data.aws_region", "aws_sqs_queue", "data.aws_sqs_queue", "aws_kms_key",
                     "data.aws_kms_key"}  # fmt: skip


def test_every_adapter_serves_a_type_of_the_bindings(cdktf):
    """No adapter is for a type that does not exist, and its outputs are attributes of the type."""
    for type_, entry in collect().resources.items():
        block = served(cdktf)[type_]
        outputs = entry.outputs if isinstance(entry, (Made, Recorded)) else {}
        assert not set(outputs) - block.attributes.keys() - block.blocks.keys(), type_


def test_immutable_attributes_exist(cdktf):
    """Every dotted path of the table of what cannot change leads to an attribute or block."""
    for type_ in collect().resources:
        for path in immutable(type_, served(cdktf)[type_]):
            block = served(cdktf)[type_]
            *blocks, last = path.split(".")
            for name in blocks:
                block = block.blocks[name].block
            assert last in block.attributes or last in block.blocks, f"{type_}: {path}"


def test_every_call_is_one_of_the_service(cdktf):
    """Operations of adapters exist, and so do the members that they name."""
    session = botocore.session.get_session()
    for type_, entry in collect().resources.items():
        if not isinstance(entry, Made):
            continue
        model = session.get_service_model(entry.service)
        names = {botocore.xform_name(name): name for name in model.operation_names}
        steps = [entry.create, *entry.more, entry.read, *entry.update, entry.delete]
        for step in steps:
            if isinstance(step, Call):
                assert step.operation in names, f"{type_}: {entry.service} has no {step.operation}"
                shape = model.operation_model(names[step.operation]).input_shape
                members = set() if shape is None else set(shape.members)
                assert set(step.params) | step.omit <= members, f"{type_}: {step.operation}"


def test_when_names_attributes(cdktf):
    """A call that waits for an attribute waits for one that exists."""
    for type_, entry in collect().resources.items():
        if isinstance(entry, Made):
            block = served(cdktf)[type_]
            for step in (*entry.more, *entry.update):
                named = step.when if isinstance(step, Call) else frozenset()
                assert named <= block.attributes.keys() | block.blocks.keys(), f"{type_}: {sorted(named)}"


def test_adapter_modules_say_what_they_are_for():
    """Every module of adapters has a docstring and offers something."""
    for info in pkgutil.iter_modules(adapters.__path__):
        module = importlib.import_module(f"{adapters.__name__}.{info.name}")
        assert inspect.getdoc(module), info.name
        assert hasattr(module, "RESOURCES") or hasattr(module, "DATA"), info.name


def test_cache_is_keyed_by_package(cdktf, tmp_path):
    """Schemas of two packages do not meet in one cache."""
    for framework in ("cdktf", "cdktn"):
        installed(framework, tmp_path).schemas(["aws_kms_key"])
    assert len([path for path in Path(tmp_path).iterdir() if path.is_dir()]) == 2
