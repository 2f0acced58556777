"""Runs a provider as Terraform's plugin: a socket, a certificate, one line on stdout that says where.

Knows go-plugin's handshake and no schema. Terraform starts the process, reads that line, checks the certificate in it
and ends the process by a call of Shutdown. Invariant: nothing but the handshake is written to stdout.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import grpc  # type: ignore[import-untyped]
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tf.gen import grpc_controller_pb2 as controller
from tf.gen import grpc_controller_pb2_grpc as controller_rpc
from tf.gen import grpc_stdio_pb2_grpc as stdio_rpc
from tf.gen import tfplugin_pb2_grpc as rpc

_CORE_PROTOCOL = 1
_PLUGIN_PROTOCOL = 6
_MESSAGE_BYTES = 256 << 20
_WORKERS = 16


class _Controller(controller_rpc.GRPCControllerServicer):  # type: ignore[misc]
    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def Shutdown(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        self._stop.set()
        return controller.Empty()


class _Stdio(stdio_rpc.GRPCStdioServicer):  # type: ignore[misc]
    def StreamStdio(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        return iter([])


def serve(servicer: Any) -> None:
    """Serve until Terraform says Shutdown."""
    stop = threading.Event()
    options = [("grpc.max_send_message_length", _MESSAGE_BYTES), ("grpc.max_receive_message_length", _MESSAGE_BYTES)]
    server = grpc.server(ThreadPoolExecutor(max_workers=_WORKERS), options=options)
    rpc.add_ProviderServicer_to_server(servicer, server)
    controller_rpc.add_GRPCControllerServicer_to_server(_Controller(stop), server)
    stdio_rpc.add_GRPCStdioServicer_to_server(_Stdio(), server)
    key, certificate = _certificate()
    with tempfile.TemporaryDirectory() as folder:
        socket = f"{folder}/provider.sock"
        server.add_secure_port(f"unix://{socket}", grpc.ssl_server_credentials([(key, certificate)]))
        server.start()
        encoded = base64.b64encode(_der(certificate)).decode().rstrip("=")
        sys.stdout.write(f"{_CORE_PROTOCOL}|{_PLUGIN_PROTOCOL}|unix|{socket}|grpc|{encoded}\n")
        sys.stdout.flush()
        stop.wait()
        server.stop(grace=0.2).wait()


def _certificate() -> tuple[bytes, bytes]:
    """A fresh key and a certificate that it signed itself, both as PEM; they live as long as the process."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(timezone.utc)  # noqa: UP017
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        key_encipherment=True,
        key_agreement=True,
        content_commitment=False,
        data_encipherment=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)


def _der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)
