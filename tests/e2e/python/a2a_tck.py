"""A plugin for pytest that runs A2A's own test suite, a2a-tck, and writes how each test ended to the file $OUTCOMES, as JSON.

The suite's gRPC client takes the URL of an interface for the name of a host and leaves its `tenant` out; A2A says that it is a
URL, and that requests have the tenant (AgentInterface). Both are put right here, for every agent alike."""
import json
import os
import urllib.request

import grpc

OUTCOMES = {}
plain_channel = grpc.insecure_channel


class Tenants(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Puts a tenant into requests."""

    def __init__(self, tenant):
        self.tenant = tenant

    def intercept_unary_unary(self, continuation, details, request):
        request.tenant = self.tenant
        return continuation(details, request)

    intercept_unary_stream = intercept_unary_unary


def pytest_sessionstart(session):
    card = session.config.getoption("sut_host").rstrip("/") + "/.well-known/agent-card.json"
    with urllib.request.urlopen(card) as answer:
        interfaces = json.load(answer)["supportedInterfaces"]
    tenants = {interface["url"]: interface.get("tenant", "") for interface in interfaces}

    def channel(url, options=None, compression=None):
        options = [("grpc.enable_http_proxy", 0), *(options or [])]
        made = plain_channel(url.removeprefix("http://"), options, compression)
        return grpc.intercept_channel(made, Tenants(tenants[url]))

    grpc.insecure_channel = channel


def pytest_runtest_logreport(report):
    if report.when == "call" or not report.passed:
        # What should be and is not is an expected failure to the suite.
        outcome = "failed" if hasattr(report, "wasxfail") else report.outcome
        OUTCOMES[report.nodeid] = [outcome, report.longreprtext]


def pytest_sessionfinish():
    with open(os.environ["OUTCOMES"], "w") as file:
        json.dump(OUTCOMES, file)
