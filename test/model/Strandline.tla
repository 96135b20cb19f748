----------------------------- MODULE Strandline -----------------------------
(* What Strandline adds to Raft, where a mistake would lose what has been     *)
(* acknowledged:                                                              *)
(*                                                                            *)
(*  - a configuration is in force when it has been applied, not when it is in *)
(*    the log, as go.etcd.io/raft has it (replica/core/membership.go);        *)
(*  - the commit index is not synced by itself: it becomes durable with the   *)
(*    next entries (segment/store/write.go);                                  *)
(*  - a write is entries, then the hard state; a power cut can leave the      *)
(*    entries without it, which is a torn write;                              *)
(*  - a replica that opens its log takes what the log proves for committed    *)
(*    (Opened below);                                                         *)
(*  - replicas that have left are dropped once the configuration without them *)
(*    is durable (Core.ConfigurationDurable);                                 *)
(*  - a replica that has lost its files never comes back under its identity;  *)
(*    another one takes its place (renew);                                    *)
(*  - when a majority is lost for good, one survivor continues alone, and     *)
(*    writer terms continue far above all that may have been granted          *)
(*    (cluster recover).                                                      *)
(*                                                                            *)
(* Raft's own messages are taken as one step each: an election with all its   *)
(* votes, a range of entries with its acknowledgement. Delays are choices of  *)
(* what such a step carries. Elections, replication and commit are those of   *)
(* Raft; their proof is not repeated here.                                    *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
  Replicas,    \* all replica ids that there ever are
  Start,       \* the voters in the beginning
  Moves,       \* the voters that are wanted one after the other, a sequence of sets
  MaxTerm, MaxLog, MaxCuts, MaxLost,
  Appends,     \* what clients append: "none", "records", or "grants" of writer terms
  (* Each of these is TRUE in Strandline, and a mistake when it is not.       *)
  OpenTakesProof,     \* a log that is opened is committed up to what it proves
  DropWaits,          \* a replica that left is dropped only when that is durable
  LostNeverReturns,   \* a replica without its files does not come back as itself
  RecoverJumps,       \* writer terms jump when a majority is given up
  (* FALSE in Strandline: what would put right what `renew` finds.            *)
  ToldWhenDurable     \* nobody hears that a change has committed before that is durable on the leader

VARIABLES
  log,       \* by replica: its entries, durable
  term, vote,   \* by replica: durable before anybody hears of them
  commit,    \* by replica: as the process knows it
  synced,    \* by replica: the commit index that is durable
  role,      \* by replica: "follower", "leader", "down" (dropped, or lost)
  match,     \* by leader and replica: entries known to be durable there
  pending,   \* by leader: no change of the configuration is proposed before this is applied
  cuts,      \* power cuts so far
  lost,      \* replicas that lost their files
  (* What a god sees.                                                         *)
  acked,     \* index, entry and leader's term of all that was acknowledged
  elected,   \* term, replica that led in it, and era
  granted,   \* pairs of writer term and a mark that is unique for each grant
  era        \* 0, and 1 after a majority was given up

vars == <<log, term, vote, commit, synced, role, match, pending, cuts, lost, acked, elected, granted, era>>

None == 0
Jump == 10   \* stands for 2^32

(* An entry has a term; a change of the configuration has the voters `in`, and *)
(* a joint one those of before in `out`; a grant has a writer term.            *)
Normal(t) == [t |-> t, in |-> {}, out |-> {}, w |-> 0, k |-> 0]
Change(t, in, out) == [Normal(t) EXCEPT !.in = in, !.out = out]
Grant(t, w) == [Normal(t) EXCEPT !.w = w]

Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b
MaxOf(S) == CHOOSE x \in S : \A y \in S : y <= x

ChangesUpTo(l, n) == {i \in 1..Min(n, Len(l)) : l[i].in # {}}

(* The configuration after the first n entries of l. *)
Conf(l, n) == LET S == ChangesUpTo(l, n) IN
  IF S = {} THEN [in |-> Start, out |-> {}] ELSE [in |-> l[MaxOf(S)].in, out |-> l[MaxOf(S)].out]

InForce(r) == Conf(log[r], commit[r])   \* what is committed is applied at once here
(* The newest change that is in force on r; 0 is the beginning. *)
NewestInForce(r) == LET S == ChangesUpTo(log[r], commit[r]) IN IF S = {} THEN 0 ELSE MaxOf(S)

Joint(c) == c.out # {}
Members(c) == c.in \cup c.out

Majority(Q, S) == 2 * Cardinality(Q \cap S) > Cardinality(S)
Quorum(Q, c) == Majority(Q, c.in) /\ (Joint(c) => Majority(Q, c.out))

LastTerm(l) == IF l = <<>> THEN 0 ELSE l[Len(l)].t
UpToDate(a, b) == \/ LastTerm(a) > LastTerm(b)
                  \/ LastTerm(a) = LastTerm(b) /\ Len(a) >= Len(b)

(* What a replica takes for committed when it opens its log. Raft proposes a  *)
(* change of the configuration only when the one before has been applied. So  *)
(* of two changes in a log the first was committed, whether this replica has  *)
(* heard of it or not.                                                        *)
Opened(l, c) == LET S == ChangesUpTo(l, Len(l)) IN
  LET before == {i \in S : \E j \in S : j > i} IN
  IF OpenTakesProof /\ before # {} THEN Max(c, MaxOf(before)) ELSE Min(c, Len(l))

Newest(l) == LET S == {l[i].w : i \in 1..Len(l)} IN IF S = {} THEN 0 ELSE MaxOf(S)

-----------------------------------------------------------------------------
(* The first of the voters leads, and all have its first entry. What comes    *)
(* before is Raft's own.                                                      *)
First == CHOOSE r \in Start : \A s \in Start : r <= s
NoMatch == [s \in Replicas |-> 0]
AtStart(a, b) == [r \in Replicas |-> IF r \in Start THEN a ELSE b]

Init ==
  /\ log = AtStart(<<Normal(1)>>, <<>>)
  /\ term = AtStart(1, 0) /\ vote = AtStart(First, None)
  /\ commit = AtStart(1, 0) /\ synced = AtStart(1, 0)
  /\ role = [r \in Replicas |-> IF r = First THEN "leader" ELSE "follower"]
  /\ match = [r \in Replicas |-> IF r = First THEN AtStart(1, 0) ELSE NoMatch]
  /\ pending = [r \in Replicas |-> 0]
  /\ cuts = 0 /\ lost = 0 /\ era = 0
  /\ acked = {<<1, Normal(1), 1>>} /\ elected = {<<1, First, 0>>} /\ granted = {}

Up == {r \in Replicas : role[r] # "down"}

(* c is elected by the voters Q, itself among them and none too many. Term    *)
(* and vote are synced before a vote leaves.                                  *)
Elect(c, Q) ==
  LET t == term[c] + 1 IN
  /\ c \in Up /\ role[c] # "leader" /\ t <= MaxTerm
  /\ c \in Q /\ Q \subseteq Up
  /\ c \in Members(InForce(c)) /\ Q \subseteq Members(InForce(c))
  /\ Quorum(Q, InForce(c)) /\ \A v \in Q \ {c} : ~Quorum(Q \ {v}, InForce(c))
  /\ \A v \in Q \ {c} : /\ UpToDate(log[c], log[v])
                        /\ term[v] < t \/ (term[v] = t /\ vote[v] = None)
                        /\ role[v] # "leader" \/ term[v] < t
  /\ Len(log[c]) < MaxLog
  /\ term' = [r \in Replicas |-> IF r \in Q THEN t ELSE term[r]]
  /\ vote' = [r \in Replicas |-> IF r \in Q THEN c ELSE vote[r]]
  /\ log' = [log EXCEPT ![c] = Append(@, [Normal(t) EXCEPT !.k = NewestInForce(c)])]
  /\ synced' = [r \in Replicas |-> IF r \in Q THEN commit[r] ELSE synced[r]]
  /\ role' = [r \in Replicas |-> IF r = c THEN "leader" ELSE IF r \in Q THEN "follower" ELSE role[r]]
  /\ match' = [r \in Replicas |-> IF r = c THEN [NoMatch EXCEPT ![c] = Len(log[c]) + 1]
                                  ELSE IF r \in Q THEN NoMatch ELSE match[r]]
  /\ pending' = [r \in Replicas |-> IF r = c THEN Len(log[c]) ELSE IF r \in Q THEN 0 ELSE pending[r]]
  /\ elected' = elected \cup {<<t, c, era>>}
  /\ UNCHANGED <<commit, cuts, lost, acked, granted, era>>

(* The leader l appends an entry and syncs it; its hard state goes along. Any *)
(* message that carries the entry carries a commit index that covers `k`.     *)
Propose(l, e) ==
  /\ Len(log[l]) < MaxLog
  /\ log' = [log EXCEPT ![l] = Append(@, [e EXCEPT !.k = NewestInForce(l)])]
  /\ match' = [match EXCEPT ![l][l] = Len(log[l]) + 1]
  /\ synced' = [synced EXCEPT ![l] = commit[l]]
  /\ UNCHANGED <<term, vote, commit, role, cuts, lost, acked, elected, granted, era>>

(* A leader takes appends when an entry of its own term has committed. *)
Ready(l) == role[l] = "leader" /\ commit[l] > 0 /\ log[l][commit[l]].t = term[l]

AppendRecords(l) == Appends = "records" /\ Ready(l) /\ Propose(l, Normal(term[l])) /\ UNCHANGED pending

AcquireWriter(l) == Appends = "grants" /\ Ready(l) /\ Propose(l, Grant(term[l], Newest(log[l]) + 1)) /\ UNCHANGED pending

(* The next move, in one joint change. *)
Reshape(l) ==
  \E i \in 1..Len(Moves) :
    /\ Ready(l) /\ commit[l] >= pending[l] /\ ~Joint(InForce(l))
    /\ InForce(l).in = (IF i = 1 THEN Start ELSE Moves[i-1])
    /\ l \in Moves[i]
    /\ \A r \in Moves[i] : role[r] # "down"
    /\ Propose(l, Change(term[l], Moves[i], InForce(l).in))
    /\ pending' = [pending EXCEPT ![l] = Len(log[l]) + 1]

(* Raft leaves a joint configuration by itself when it has been applied. *)
Leave(l) ==
  /\ role[l] = "leader" /\ commit[l] >= pending[l] /\ Joint(InForce(l))
  /\ Propose(l, Change(term[l], InForce(l).in, {}))
  /\ pending' = [pending EXCEPT ![l] = Len(log[l]) + 1]

Matches(l, f, n) == \* f's log has the same first n entries as l's
  n <= Len(log[f]) /\ \A i \in 1..n : log[f][i] = log[l][i]

(* What f's log is when it has taken the entries of l up to n. *)
Taken(l, f, n) == IF Matches(l, f, n) THEN log[f] ELSE SubSeq(log[l], 1, n)

(* f takes the entries of the leader l up to n, its last one, with the commit *)
(* index c that the message carries, and acknowledges them once both are      *)
(* synced. A message that was under way for long carries an old one.          *)
Told(l) == LET c == NewestInForce(l) IN IF ToldWhenDurable /\ c > synced[l] THEN c - 1 ELSE commit[l]
Carried(l, n) == IF n = 0 THEN {} ELSE {Min(Told(l), n), Min(Told(l), log[l][n].k)}

Follows(r) == role' = [role EXCEPT ![r] = "follower"] /\ pending' = [pending EXCEPT ![r] = 0]

Replicate(l, f, n, c) ==
  /\ role[l] = "leader" /\ f \in Up \ {l} /\ f \in Members(InForce(l))
  /\ term[f] <= term[l]
  /\ n \in 1..Len(log[l])
  /\ ~Matches(l, f, n) \/ match[l][f] < n \/ term[f] < term[l]
  /\ log' = [log EXCEPT ![f] = Taken(l, f, n)]
  /\ term' = [term EXCEPT ![f] = term[l]]
  /\ vote' = [vote EXCEPT ![f] = IF term[f] = term[l] THEN @ ELSE None]
  /\ commit' = [commit EXCEPT ![f] = Max(@, c)]
  /\ synced' = [synced EXCEPT ![f] = commit'[f]]
  /\ Follows(f)
  /\ match' = [match EXCEPT ![l][f] = Max(@, n), ![f] = NoMatch]
  /\ UNCHANGED <<cuts, lost, acked, elected, granted, era>>

(* f hears of the commit index and has nothing else to write: it is not synced. *)
Beat(l, f) ==
  LET c == Min(Told(l), match[l][f]) IN
  /\ role[l] = "leader" /\ f \in Up \ {l} /\ term[f] = term[l] /\ commit[f] < c
  /\ commit' = [commit EXCEPT ![f] = c]
  /\ UNCHANGED <<log, term, vote, synced, role, match, pending, cuts, lost, acked, elected, granted, era>>

(* What the leader knows to be durable on a quorum is committed, and answered. *)
Commit(l, n) ==
  /\ role[l] = "leader" /\ n \in (commit[l]+1)..Len(log[l]) /\ log[l][n].t = term[l]
  /\ Quorum({s \in Replicas : match[l][s] >= n}, InForce(l))
  /\ commit' = [commit EXCEPT ![l] = n]
  /\ acked' = acked \cup {<<i, log[l][i], term[l]>> : i \in (commit[l]+1)..n}
  /\ granted' = granted \cup {<<log[l][i].w, <<i, log[l][i].t, era>>>> : i \in {k \in (commit[l]+1)..n : log[l][k].w > 0}}
  /\ role' = [role EXCEPT ![l] = IF l \in Members(Conf(log[l], n)) THEN @ ELSE "follower"]
  /\ UNCHANGED <<log, term, vote, synced, match, pending, cuts, lost, elected, era>>

(* The leader syncs its hard state by itself, since a change has committed. *)
Sync(l) ==
  /\ ToldWhenDurable /\ role[l] = "leader" /\ synced[l] < NewestInForce(l)
  /\ synced' = [synced EXCEPT ![l] = commit[l]]
  /\ UNCHANGED <<log, term, vote, commit, role, match, pending, cuts, lost, acked, elected, granted, era>>

(* r begins again with the log l. *)
Restart(r, l) ==
  /\ cuts < MaxCuts /\ cuts' = cuts + 1
  /\ log' = [log EXCEPT ![r] = l]
  /\ commit' = [commit EXCEPT ![r] = Opened(l, synced[r])]
  /\ Follows(r)
  /\ match' = [match EXCEPT ![r] = NoMatch]
  /\ UNCHANGED <<term, vote, synced, lost, acked, elected, granted, era>>

Cut(r) ==
  /\ r \in Up
  /\ role[r] = "leader" \/ commit[r] # Opened(log[r], synced[r])
  /\ Restart(r, log[r])

(* Power goes in the middle of a write: the entries are there, the hard state *)
(* of the same write is not. Nothing was acknowledged.                        *)
Torn(l, f, n) ==
  /\ role[l] = "leader" /\ f \in Up \ {l} /\ f \in Members(InForce(l)) /\ term[f] <= term[l]
  /\ n \in 1..Len(log[l]) /\ ~Matches(l, f, n)
  /\ Restart(f, Taken(l, f, n))

(* A replica that is in no configuration any more is dropped with its files,  *)
(* once an entry that was proposed when the change was in force has committed. *)
Drop(l, r) ==
  LET c == NewestInForce(l) IN
  /\ Ready(l) /\ ~Joint(InForce(l)) /\ c > 0 /\ commit[l] >= pending[l]
  /\ r \in Up \ Members(InForce(l))
  /\ \E i \in ChangesUpTo(log[l], c) : r \in Members(Conf(log[l], i - 1))
  /\ DropWaits => \E i \in (c+1)..commit[l] : log[l][i].t = term[l] /\ log[l][i].k = c
  /\ role' = [role EXCEPT ![r] = "down"]
  /\ UNCHANGED <<log, term, vote, commit, synced, match, pending, cuts, lost, acked, elected, granted, era>>

(* r loses its files. A move gives its place to another replica. *)
Lose(r) ==
  /\ lost < MaxLost /\ lost' = lost + 1
  /\ r \in Up /\ r \in Start
  /\ role' = [role EXCEPT ![r] = IF LostNeverReturns THEN "down" ELSE "follower"]
  /\ log' = [log EXCEPT ![r] = <<>>]
  /\ synced' = [synced EXCEPT ![r] = 0]
  /\ term' = [term EXCEPT ![r] = 0]
  /\ vote' = [vote EXCEPT ![r] = None]
  /\ commit' = [commit EXCEPT ![r] = 0]
  /\ match' = [match EXCEPT ![r] = NoMatch]
  /\ pending' = [pending EXCEPT ![r] = 0]
  /\ UNCHANGED <<cuts, acked, elected, granted, era>>

(* A majority is lost for good: the survivor with the longest log continues   *)
(* alone. What only the others had is lost, which the command says. A writer  *)
(* term that only the others had may have been granted.                       *)
Recover(s) ==
  LET t == term[s] + 1
      kept == Append(log[s], [Change(t, {s}, {}) EXCEPT !.w = IF RecoverJumps THEN Newest(log[s]) + Jump ELSE 0])
  IN
  /\ era = 0 /\ era' = 1
  /\ ~Quorum(Up, Conf(log[s], Opened(log[s], synced[s])))
  /\ s \in Up /\ \A r \in Up : UpToDate(log[s], log[r])
  /\ t <= MaxTerm /\ Len(log[s]) < MaxLog
  /\ log' = [log EXCEPT ![s] = kept]
  /\ synced' = [synced EXCEPT ![s] = Len(kept)]
  /\ term' = [term EXCEPT ![s] = t]
  /\ vote' = [vote EXCEPT ![s] = s]
  /\ commit' = [commit EXCEPT ![s] = Len(kept)]
  /\ role' = [r \in Replicas |-> IF r = s THEN "follower" ELSE "down"]
  /\ acked' = {a \in acked : a[1] <= Len(log[s]) /\ log[s][a[1]] = a[2]}
  /\ elected' = elected \cup {<<t, s, era'>>}
  /\ match' = [r \in Replicas |-> NoMatch]
  /\ pending' = [r \in Replicas |-> 0]
  /\ UNCHANGED <<cuts, lost, granted>>

-----------------------------------------------------------------------------
Next ==
  \/ \E c \in Replicas, Q \in SUBSET Replicas : Elect(c, Q)
  \/ \E l \in Replicas : AppendRecords(l) \/ AcquireWriter(l) \/ Reshape(l) \/ Leave(l)
  \/ \E l, f \in Replicas : \E c \in Carried(l, Len(log[l])) : Replicate(l, f, Len(log[l]), c)
  \/ \E l, f \in Replicas : \E n \in 1..Len(log[l]) : Torn(l, f, n)
  \/ \E l, f \in Replicas : Beat(l, f) \/ Drop(l, f)
  \/ \E l \in Replicas, n \in 1..MaxLog : Commit(l, n)
  \/ \E r \in Replicas : Cut(r) \/ Lose(r) \/ Recover(r) \/ Sync(r)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What has to hold in every state.                                           *)

(* Terms jump when a majority is given up; here it is the era that differs.   *)
OneLeaderInATerm == \A a, b \in elected : a[1] = b[1] /\ a[3] = b[3] => a[2] = b[2]

(* Whoever leads later has what was acknowledged before. *)
NothingIsLost ==
  \A l \in Replicas : role[l] = "leader" =>
    \A a \in acked : a[3] < term[l] => Len(log[l]) >= a[1] /\ log[l][a[1]] = a[2]

(* What two replicas take for committed is the same. *)
CommittedIsOne ==
  \A r, s \in Up : \A i \in 1..Min(commit[r], commit[s]) : log[r][i] = log[s][i]

WriterTermsAreGrantedOnce == \A a, b \in granted : a[1] = b[1] => a[2] = b[2]

(* After a power cut of all, what is on the disks is enough for a leader. *)
CanLead ==
  \E c \in Up : LET conf == Conf(log[c], Opened(log[c], synced[c])) IN
    /\ c \in Members(conf)
    /\ Quorum({v \in Up : UpToDate(log[c], log[v])}, conf)
=============================================================================
