use crate::wire;

/// Where the voters of a log are to be, where its leader and where read replicas, by the labels of
/// nodes: KEY=VALUE, such as dc=fra. One that the nodes cannot keep is refused with
/// [`Reason::Precondition`](crate::Reason::Precondition).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementRule {
    /// The key of a label: of three values or more none has more than half of the voters, of two
    /// both have one. Empty: voters need not be spread.
    pub spread: String,
    /// Voters are on nodes with one of these labels only; empty: on any.
    pub voters_in: Vec<String>,
    /// Voters are on no node with one of these labels.
    pub voters_not_in: Vec<String>,
    /// Where the leader is to be, the best first. One voter at least is in the first.
    pub leader_homes: Vec<String>,
    /// Beside the voters, on other nodes.
    pub read_replicas: Vec<ReadReplicas>,
}

/// Read replicas on nodes with a label. They follow the log for ever, count for no majority, and
/// serve readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadReplicas {
    /// KEY=VALUE.
    pub label: String,
    /// 1 to 16; 16 at the most of one log.
    pub count: i32,
}

impl From<PlacementRule> for wire::PlacementRule {
    fn from(rule: PlacementRule) -> wire::PlacementRule {
        let PlacementRule { spread, voters_in, voters_not_in, leader_homes, read_replicas } = rule;
        let read_replicas = read_replicas
            .into_iter()
            .map(|ReadReplicas { label, count }| wire::ReadReplicas { label, count })
            .collect();
        wire::PlacementRule { spread, voters_in, voters_not_in, leader_homes, read_replicas }
    }
}

impl From<wire::PlacementRule> for PlacementRule {
    fn from(rule: wire::PlacementRule) -> PlacementRule {
        let wire::PlacementRule { spread, voters_in, voters_not_in, leader_homes, read_replicas } = rule;
        let read_replicas = read_replicas
            .into_iter()
            .map(|wire::ReadReplicas { label, count }| ReadReplicas { label, count })
            .collect();
        PlacementRule { spread, voters_in, voters_not_in, leader_homes, read_replicas }
    }
}
