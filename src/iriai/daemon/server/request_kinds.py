"""Which requests may fail alone, where the fault is ours; see `FAIL_ALONE`."""

from __future__ import annotations

from iriai.wire.accounts import AskUsage, Shares
from iriai.wire.ads import AskAds, AskMatch
from iriai.wire.changes import Alter, Cancel, Hold, Release
from iriai.wire.joining import (
    AskAuthority,
    Authenticate,
    Join,
    ListConsents,
    ListTokens,
    MakeToken,
    Publish,
    RenewCertificate,
    RevokeToken,
    ShowCluster,
)
from iriai.wire.machines import AskNodes
from iriai.wire.reports import Doctor, ShowConfiguration, Status
from iriai.wire.requests import AskWhy, Hello, Jobs, Logs, ReadOutput, Show, Submit, Wait
from iriai.wire.stories import AskStory

LOOKS = frozenset(
    {
        Jobs,
        Show,
        AskWhy,
        AskStory,
        AskUsage,
        Shares,
        Logs,
        ReadOutput,
        Status,
        Doctor,
        ShowConfiguration,
        ShowCluster,
        ListTokens,
        ListConsents,
        AskNodes,
        AskAds,
        AskMatch,
    }
)
"""Requests that change nothing."""
BESIDE_CORES = frozenset(
    {
        Hello,
        Wait,
        AskAuthority,
        Join,
        RenewCertificate,
        Authenticate,
        MakeToken,
        RevokeToken,
        Publish,
    }
)
"""Requests that change something, and no core: what they keep is written whole, or not at all."""
CHECK_FIRST = frozenset({Submit, Cancel, Hold, Release, Alter})
"""Requests whose handlers say `RequestContext.is_changing` before they change a core.

Where one of all these fails for an error of ours before that, whoever asked is told, and nobody
else is concerned. After any other the daemon ends, and begins again from what is stored."""

FAIL_ALONE = LOOKS | BESIDE_CORES | CHECK_FIRST
"""All of these."""
