"""What a client sends and is answered, for those who use one: the types of the wire protocol."""

from iriai.wire.accounts import ShareRow, ShareTable, UsageRow, UsageTable
from iriai.wire.ads import AdRow, ClauseRow, MatchRow, MatchTable
from iriai.wire.changes import Alter, Altered, Changed
from iriai.wire.joining import ClusterReport, TokenMade, TokenRow, TokenTable
from iriai.wire.machines import LinkRow, MemberRow, NodeRow
from iriai.wire.reports import (
    ClusterSight,
    ConfigurationTable,
    DoctorReport,
    Finding,
    Setting,
    StatusReport,
)
from iriai.wire.requests import (
    AttemptRow,
    DryRun,
    JobDetail,
    JobDraft,
    JobRow,
    Jobs,
    LogFile,
    Outcome,
    OutputPiece,
    Progress,
    Reasons,
    Submitted,
    Welcome,
    Why,
)
from iriai.wire.stories import Story, StoryRow

__all__ = [
    "AdRow",
    "Alter",
    "Altered",
    "AttemptRow",
    "Changed",
    "ClauseRow",
    "ClusterReport",
    "ClusterSight",
    "ConfigurationTable",
    "DoctorReport",
    "DryRun",
    "Finding",
    "JobDetail",
    "JobDraft",
    "JobRow",
    "Jobs",
    "LinkRow",
    "LogFile",
    "MatchRow",
    "MatchTable",
    "MemberRow",
    "NodeRow",
    "Outcome",
    "OutputPiece",
    "Progress",
    "Reasons",
    "Setting",
    "ShareRow",
    "ShareTable",
    "StatusReport",
    "Story",
    "StoryRow",
    "Submitted",
    "TokenMade",
    "TokenRow",
    "TokenTable",
    "UsageRow",
    "UsageTable",
    "Welcome",
    "Why",
]
