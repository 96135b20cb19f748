------------------------------- MODULE Traces -------------------------------
(* Follows what Raft did on each replica in a run of the simulator through    *)
(* etcdraft.tla, the specification that comes with go.etcd.io/raft. Each event *)
(* of the trace (RaftTrace.tla) has to be a step of the specification, with the *)
(* term, vote, commit index, length of the log and message that the event has. *)
(*                                                                            *)
(* The steps are those of the specification, but for three. Its Ready makes   *)
(* durable and sends at once; here writes are asynchronous, as in Strandline: *)
(*                                                                            *)
(*  - Ready sends what need not wait, and queues the state that is to be      *)
(*    written, with the answers that promise it;                              *)
(*  - Durable, an event of the disk and not of Raft, makes states of the queue *)
(*    durable and sends what waited for them;                                 *)
(*  - Restart continues with what is durable, or with any part of what was    *)
(*    queued: entries and hard state are written one after the other, and a   *)
(*    write can be cut off between two entries.                               *)
(*                                                                            *)
(* So a message that promises what is not durable yet has not been sent, and   *)
(* an event that receives it is no step.                                      *)
EXTENDS etcdraft, RaftTrace

VARIABLES
  l,       \* the event that is next
  within,  \* an event that takes several steps has begun
  stored,  \* by replica: term, vote and log that are durable
  queue,   \* by replica: those that are to be written, with the messages that wait for each
  sent     \* every message that ever was: one may arrive twice

all == <<vars, l, within, stored, queue, sent>>

TraceServer == Founders
TraceServerVars == /\ currentTerm = [i \in Server |-> 1]
                   /\ state = [i \in Server |-> Follower]
                   /\ votedFor = [i \in Server |-> Nil]
First == [term |-> 1, type |-> ConfigEntry, value |-> [newconf |-> Founders, learners |-> {}]]
TraceLogVars == /\ log = [i \in Server |-> <<First>>]
                /\ commitIndex = [i \in Server |-> 1]

TraceInit ==
  /\ Init
  /\ l = 1 /\ within = FALSE /\ sent = {}
  /\ stored = [i \in Server |-> [term |-> 1, vote |-> Nil, log |-> <<First>>]]
  /\ queue = [i \in Server |-> <<>>]

ev == Events[l]
Is(e) == l <= Len(Events) /\ ev.e = e
Disk == <<stored, queue, sent>>

Next1 == l' = l + 1 /\ within' = FALSE /\ PrintT(<<"line", l + 1>>)

Before(i) == ~within =>
  /\ currentTerm[i] = ev.term /\ state[i] = ev.role /\ votedFor[i] = ev.vote
  /\ Len(log[i]) = ev.log /\ commitIndex[i] = ev.commit

After(i) ==
  /\ currentTerm'[i] = ev.term /\ state'[i] = ev.role /\ votedFor'[i] = ev.vote
  /\ Len(log'[i]) = ev.log /\ commitIndex'[i] = ev.commit

Nothing == UNCHANGED vars

-----------------------------------------------------------------------------
SendVote ==
  /\ \/ Is("SendRequestVoteRequest")
     \/ Is("SendRequestVoteResponse") /\ ev.m.from = ev.m.to
  /\ RequestVote(ev.m.from, ev.m.to) /\ After(ev.i)
  /\ ev.m.term = currentTerm[ev.i]
  /\ ev.e = "SendRequestVoteRequest" => ev.m.index = Len(log[ev.i]) /\ ev.m.logTerm = LastTerm(log[ev.i])
  /\ UNCHANGED Disk /\ Next1

(* Answers are made when the question arrives. *)
SendAnswer ==
  /\ Is("SendRequestVoteResponse") \/ Is("SendAppendEntriesResponse")
  /\ ev.m.from # ev.m.to
  /\ Nothing /\ UNCHANGED Disk /\ Next1

SendToSelf ==
  /\ Is("SendAppendEntriesResponse") /\ ev.m.from = ev.m.to
  /\ AppendEntriesToSelf(ev.i) /\ After(ev.i) /\ ev.m.index = Len(log[ev.i])
  /\ UNCHANGED Disk /\ Next1

SendEntries ==
  /\ Is("SendAppendEntriesRequest") /\ ev.m.type = "MsgApp"
  /\ LET i == ev.i
         j == ev.m.to
         n == ev.m.index
     IN
     /\ n >= matchIndex[i][j] /\ n + ev.m.entries <= Len(log[i])
     /\ ev.m.logTerm = (IF n = 0 THEN 0 ELSE log[i][n].term)
     /\ ev.m.commit = commitIndex[i] /\ ev.m.term = currentTerm[i]
     /\ AppendEntries(i, j, <<n + 1, n + 1 + ev.m.entries>>) /\ After(i)
  /\ UNCHANGED Disk /\ Next1

SendHeartbeat ==
  /\ Is("SendAppendEntriesRequest") /\ ev.m.type = "MsgHeartbeat"
  /\ ev.m.commit = Min({commitIndex[ev.i], matchIndex[ev.i][ev.m.to]})
  /\ Heartbeat(ev.i, ev.m.to) /\ After(ev.i)
  /\ UNCHANGED Disk /\ Next1

Lead == Is("BecomeLeader") /\ BecomeLeader(ev.i) /\ After(ev.i) /\ UNCHANGED Disk /\ Next1

Propose == Is("Replicate") /\ Before(ev.i) /\ ClientRequest(ev.i, 0) /\ UNCHANGED Disk /\ Next1

Commit == Is("Commit") /\ AdvanceCommitIndex(ev.i) /\ After(ev.i) /\ UNCHANGED Disk /\ Next1

Stand == Is("BecomeCandidate") /\ Timeout(ev.i) /\ After(ev.i) /\ UNCHANGED Disk /\ Next1

(* Most of these belong to a message that has been received, which has made a  *)
(* follower of it. A term may have come with a pre-vote, which the             *)
(* specification does not have: somebody is in that term.                      *)
Follow ==
  /\ Is("BecomeFollower")
  /\ LET i == ev.i IN
     IF currentTerm[i] = ev.term
       THEN IF state[i] = Follower THEN Nothing ELSE StepDownToFollower(i) /\ After(i)
       ELSE /\ currentTerm[i] < ev.term /\ \E j \in Server : currentTerm[j] >= ev.term
            /\ BecomeFollowerOfTerm(i, ev.term)
            /\ UNCHANGED <<messageVars, candidateVars, leaderVars, logVars, configVars, durableState>>
            /\ After(i)
  /\ UNCHANGED Disk /\ Next1

-----------------------------------------------------------------------------
Waits(m) == \/ m.mtype = RequestVoteResponse
            \/ m.mtype = AppendEntriesResponse /\ m.msubtype = "app"

Part(B, Test(_)) == [m \in {x \in DOMAIN B : Test(x)} |-> B[m]]

Now(i) == [term |-> currentTerm[i], vote |-> votedFor[i], log |-> log[i]]

ReadyAsync ==
  /\ Is("Ready")
  /\ LET i == ev.i
         mine == PendingMessages(i)
         wait == Part(mine, Waits)
         go == Part(mine, LAMBDA m : ~Waits(m))
         n == Len(queue[i])
         idle == n = 0 /\ stored[i] = Now(i)
         out == IF idle THEN mine ELSE go
     IN
     /\ Before(i)
     /\ pendingMessages' = pendingMessages (-) mine
     /\ messages' = messages (+) out
     /\ sent' = sent \cup DOMAIN out
     /\ queue' = CASE idle -> queue
                   [] n > 0 /\ queue[i][n].now = Now(i) -> [queue EXCEPT ![i][n].wait = @ (+) wait]
                   [] OTHER -> [queue EXCEPT ![i] = Append(@, [now |-> Now(i), wait |-> wait])]
  /\ UNCHANGED <<serverVars, leaderVars, candidateVars, logVars, configVars, durableState, stored>>
  /\ Next1

IsStored(s) == s.term = ev.term /\ s.vote = ev.vote /\ Len(s.log) = ev.log /\ LastTerm(s.log) = ev.last

RECURSIVE WaitedUpTo(_, _)
WaitedUpTo(q, n) == IF n = 0 THEN EmptyBag ELSE q[n].wait (+) WaitedUpTo(q, n - 1)

Persisted(i, s, c) == durableState' = [durableState EXCEPT ![i] = [
  currentTerm |-> s.term, votedFor |-> s.vote, log |-> Len(s.log), commitIndex |-> c, config |-> config[i]]]

Durable ==
  /\ Is("Durable")
  /\ LET i == ev.i
         K == {k \in 1..Len(queue[i]) : IsStored(queue[i][k].now)}
     IN
     IF K = {} THEN IsStored(stored[i]) /\ Nothing /\ UNCHANGED Disk
     ELSE LET k == Min(K)
              out == WaitedUpTo(queue[i], k)
          IN
          /\ stored' = [stored EXCEPT ![i] = queue[i][k].now]
          /\ queue' = [queue EXCEPT ![i] = SubSeq(@, k + 1, Len(@))]
          /\ messages' = messages (+) out
          /\ sent' = sent \cup DOMAIN out
          /\ Persisted(i, queue[i][k].now, commitIndex[i])
          /\ UNCHANGED <<pendingMessages, serverVars, leaderVars, candidateVars, logVars, configVars>>
  /\ Next1

(* How many entries two logs have in common. *)
Common(a, b) == LET N == {n \in 0..Min({Len(a), Len(b)}) : \A k \in 1..n : a[k] = b[k]} IN Max(N)

RestartFromDisk ==
  /\ Is("Restart")
  /\ LET i == ev.i
         S == {stored[i]} \cup {queue[i][k].now : k \in DOMAIN queue[i]}
     IN
     /\ \E s \in S : s.term = ev.term /\ s.vote = ev.vote
     /\ ev.commit <= commitIndex[i] /\ ev.commit <= ev.log
     /\ \E s \in S :
          /\ ev.log >= Common(stored[i].log, s.log) /\ ev.log <= Len(s.log)
          /\ LET disk == [term |-> ev.term, vote |-> ev.vote, log |-> SubSeq(s.log, 1, ev.log)] IN
             /\ log' = [log EXCEPT ![i] = disk.log]
             /\ stored' = [stored EXCEPT ![i] = disk]
             /\ Persisted(i, disk, ev.commit)
     /\ queue' = [queue EXCEPT ![i] = <<>>]
     /\ currentTerm' = [currentTerm EXCEPT ![i] = ev.term]
     /\ votedFor' = [votedFor EXCEPT ![i] = ev.vote]
     /\ commitIndex' = [commitIndex EXCEPT ![i] = ev.commit]
     /\ state' = [state EXCEPT ![i] = Follower]
     /\ votesResponded' = [votesResponded EXCEPT ![i] = {}]
     /\ votesGranted' = [votesGranted EXCEPT ![i] = {}]
     /\ matchIndex' = [matchIndex EXCEPT ![i] = [j \in Server |-> 0]]
     /\ pendingConfChangeIndex' = [pendingConfChangeIndex EXCEPT ![i] = 0]
     /\ pendingMessages' = ClearPendingMessages(i)
  /\ UNCHANGED <<messages, sent, configVars>> /\ Next1

-----------------------------------------------------------------------------
Arrived(m) ==
  /\ m.msource = ev.m.from /\ m.mdest = ev.m.to /\ m.mterm = ev.m.term
  /\ CASE ev.m.type = "MsgVote" -> /\ m.mtype = RequestVoteRequest
                                   /\ m.mlastLogIndex = ev.m.index /\ m.mlastLogTerm = ev.m.logTerm
       [] ev.m.type = "MsgVoteResp" -> m.mtype = RequestVoteResponse /\ m.mvoteGranted = ~ev.m.reject
       [] ev.m.type = "MsgHeartbeat" -> /\ m.mtype = AppendEntriesRequest /\ m.msubtype = "heartbeat"
                                        /\ m.mcommitIndex = ev.m.commit
       [] ev.m.type = "MsgHeartbeatResp" -> m.mtype = AppendEntriesResponse /\ m.msubtype = "heartbeat"
       [] ev.m.type = "MsgApp" -> /\ m.mtype = AppendEntriesRequest /\ m.msubtype = "app"
                                  /\ m.mprevLogIndex = ev.m.index /\ m.mprevLogTerm = ev.m.logTerm
                                  /\ Len(m.mentries) = ev.m.entries
                                  /\ m.mcommitIndex = Min({ev.m.commit, ev.m.index + ev.m.entries})
       [] ev.m.type = "MsgAppResp" -> /\ m.mtype = AppendEntriesResponse /\ m.msubtype = "app"
                                      /\ m.msuccess = ~ev.m.reject
                                      /\ m.msuccess => m.mmatchIndex = ev.m.index

Receives == {"ReceiveAppendEntriesRequest", "ReceiveAppendEntriesResponse", "ReceiveRequestVoteRequest", "ReceiveRequestVoteResponse"}
Receiving == l <= Len(Events) /\ ev.e \in Receives

(* Raft refuses its vote also when it knows a leader in that term. *)
RefuseVote(m) ==
  /\ m.mterm <= currentTerm[m.mdest]
  /\ Reply([mtype |-> RequestVoteResponse, mterm |-> currentTerm[m.mdest], mvoteGranted |-> FALSE,
            msource |-> m.mdest, mdest |-> m.msource], m)
  /\ UNCHANGED <<serverVars, candidateVars, leaderVars, logVars, configVars, durableState>>

Arrive ==
  /\ Receiving
  /\ \E m \in {x \in DOMAIN messages : Arrived(x)} :
       /\ Before(m.mdest)
       /\ IF ev.refused /\ m.mterm <= currentTerm[m.mdest] THEN RefuseVote(m) ELSE Receive(m)
       /\ IF messages' # messages THEN Next1 ELSE l' = l /\ within' = TRUE
  /\ UNCHANGED Disk

ArriveAgain ==
  /\ Receiving /\ ~ \E m \in DOMAIN messages : Arrived(m)
  /\ \E m \in sent : Arrived(m) /\ messages' = messages (+) SetToBag({m})
  /\ UNCHANGED <<pendingMessages, serverVars, candidateVars, leaderVars, logVars, configVars, durableState, l, within>>
  /\ UNCHANGED Disk

(* A leader says to its Raft that a follower has answered a heartbeat when the *)
(* entries which that one lacks have been read (replica/core/supply.go). To the *)
(* specification such an answer means nothing.                                 *)
Resume ==
  /\ Receiving /\ ev.m.type = "MsgHeartbeatResp" /\ ~ \E m \in DOMAIN messages \cup sent : Arrived(m)
  /\ Before(ev.i) /\ state[ev.i] = Leader /\ ev.m.term = currentTerm[ev.i]
  /\ Nothing /\ UNCHANGED Disk /\ Next1

TraceNext ==
  \/ SendVote \/ SendAnswer \/ SendToSelf \/ SendEntries \/ SendHeartbeat
  \/ Lead \/ Propose \/ Commit \/ Stand \/ Follow
  \/ ReadyAsync \/ Durable \/ RestartFromDisk
  \/ Arrive \/ ArriveAgain \/ Resume

TraceSpec == TraceInit /\ [][TraceNext]_all

(* TLC has to find that this does not hold: then the trace has been followed to *)
(* its end.                                                                    *)
NotFollowed == l <= Len(Events)
=============================================================================
