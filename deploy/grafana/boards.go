package main

import "fmt"

// dashboard is one of the two: rows, each of which answers a question.
type dashboard struct {
	file, uid, title, about string
	selector                string // of the series that are shown
	ofLog                   bool   // one log, out of /metrics/logs
	variables               []variable
	rows                    []row
}

type row struct {
	title     string
	collapsed bool
	panels    []panel
}

// panel shows queries over time, or its newest value if it is a number.
type panel struct {
	title   string
	hint    string // what to conclude
	about   string // the meanings of its metrics
	unit    string
	number  bool
	bad     float64 // of a number: this and more is red; 0: never
	stacked bool
	queries []query
}

type query struct{ expr, legend string }

// ofNode selects the series of the nodes that are chosen.
const ofNode = `instance=~"$instance"`

// sumOf is the sum of a metric over the nodes.
func sumOf(name string) string { return fmt.Sprintf("sum(%s{%s})", name, ofNode) }

// replicasIn is the number of replicas in a state.
func replicasIn(state string) string {
	return fmt.Sprintf("sum(strandline_logs{%s,state=%q})", ofNode, state)
}

// perSecond is the rate of a counter by node.
func perSecond(name string) string {
	return fmt.Sprintf("sum by (instance) (rate(%s{%s}[$__rate_interval]))", name, ofNode)
}

// each is a gauge by node.
func each(name string) string { return fmt.Sprintf("%s{%s}", name, ofNode) }

const byNode = "{{instance}}"

func clusterBoard() dashboard {
	number := func(title, expr string, bad float64, hint string) panel {
		return panel{title: title, hint: hint, unit: "short", number: true, bad: bad, queries: []query{{expr, ""}}}
	}
	return dashboard{
		file: "cluster.json", uid: "strandline-cluster", title: "Strandline: cluster", selector: ofNode,
		about:     "Nodes of a cluster, by question. Made from docs/metrics.md by deploy/grafana.",
		variables: []variable{instances("strandline_build_info")},
		rows: []row{
			{title: "Is it healthy?", panels: []panel{
				number("Nodes scraped", fmt.Sprintf("count(%s)", each("strandline_build_info")), 0, "The nodes that Prometheus reaches."),
				number("Connections between nodes down", sumOf("strandline_nodes_down"), 1, "0 unless a node is down or the network between nodes is."),
				number("Logs without a leader", replicasIn("leaderless"), 1, "They take no appends."),
				number("Replicas that cannot be served", replicasIn("failed"), 1, "strandline cluster status --unhealthy says why."),
				number("Logs short of a replica", sumOf("strandline_under_replicated_logs"), 1, "The loss of another node may stop them."),
				number("Logs that refuse appends: disks full", sumOf("strandline_full_logs"), 1, "Trim, or give the disks room."),
				number("Full disks", sumOf("strandline_disk_full"), 1, "Other nodes lead meanwhile."),
				number("Logs whose disk does not finish writes", sumOf("strandline_disk_stalled_logs"), 1, "Look at the disk."),
				number("Damage found in 24 hours", fmt.Sprintf("sum(increase(strandline_damaged_total{%[1]s}[24h]) + increase(strandline_lost_replicas_total{%[1]s}[24h]) + increase(strandline_unreadable_total{%[1]s}[24h]))", ofNode), 1, "It is repaired from other nodes; the next is on the same machine."),
				number("Versions", fmt.Sprintf("count(count by (version) (%s))", each("strandline_build_info")), 2, "1 except during an upgrade."),
				number("Replicas", sumOf("strandline_logs"), 0, ""),
				number("Nodes of the cluster", fmt.Sprintf("max(%s)", each("strandline_nodes")), 0, "According to the nodes."),
			}},
			{title: "How much work is there?", panels: []panel{
				{title: "Records appended per second", unit: "short", stacked: true, queries: []query{{perSecond("strandline_appended_records_total"), byNode}}},
				{title: "Bytes appended per second", unit: "Bps", stacked: true, queries: []query{{perSecond("strandline_appended_bytes_total"), byNode}}},
				{title: "Bytes read per second", unit: "Bps", stacked: true, queries: []query{
					{perSecond("strandline_grpc_read_bytes_total"), byNode + " gRPC"}, {perSecond("strandline_kafka_fetched_bytes_total"), byNode + " Kafka"},
				}},
				{title: "Replicas by state", unit: "short", stacked: true, queries: []query{{fmt.Sprintf("sum by (state) (%s)", each("strandline_logs")), "{{state}}"}}},
				{title: "Leaders by node", hint: "About the same on every node.", unit: "short", queries: []query{{`strandline_logs{` + ofNode + `,state="leading"}`, byNode}}},
				{title: "Connections of clients", unit: "short", queries: []query{
					{each("strandline_grpc_connections"), byNode + " gRPC"}, {each("strandline_kafka_connections"), byNode + " Kafka"},
				}},
				{title: "Refusals per second", hint: "A few NOT_LEADER are normal: clients find leaders with them. docs/errors.md explains each reason.", unit: "short", queries: []query{
					{fmt.Sprintf("sum by (verb, reason) (rate(strandline_refusals_total{%s}[$__rate_interval]))", ofNode), "{{verb}} {{reason}}"},
				}},
				{title: "Kafka requests per second", unit: "short", queries: []query{
					{fmt.Sprintf("sum by (api) (rate(strandline_kafka_requests_total{%s}[$__rate_interval]))", ofNode), "{{api}}"},
				}},
				{title: "Refused Kafka batches per second", unit: "short", queries: []query{
					{fmt.Sprintf("sum by (error) (rate(strandline_kafka_produce_refusals_total{%s}[$__rate_interval]))", ofNode), "{{error}}"},
				}},
			}},
			{title: "Where does the time of an append go?", panels: []panel{
				{title: "Appends, p50 and p99", unit: "s", queries: []query{
					{quantile("0.5", "strandline_append_seconds", ofNode, "instance"), byNode + " p50"},
					{quantile("0.99", "strandline_append_seconds", ofNode, "instance"), byNode + " p99"},
				}},
				{
					title: "Stages, p99", hint: "A large queue means a busy processor; a large batch, write or sync a slow disk of the leader; a large replicas a slow network or slow disks of the followers.",
					unit: "s", queries: []query{{quantile("0.99", "strandline_append_stage_seconds", ofNode, "stage"), "{{stage}}"}},
				},
				{title: "Stages, mean", hint: "The stages add up to the time of an entry.", unit: "s", stacked: true, queries: []query{{
					fmt.Sprintf("sum by (stage) (rate(strandline_append_stage_seconds_sum{%[1]s}[$__rate_interval])) / sum by (stage) (rate(strandline_append_stage_seconds_count{%[1]s}[$__rate_interval]))", ofNode), "{{stage}}",
				}}},
				{title: "Acknowledgement by each replica, p99", hint: "A node that is slow for all leaders has a slow disk or network.", unit: "s", queries: []query{{quantile("0.99", "strandline_append_replica_seconds", ofNode, "instance", "node"), byNode + " to {{node}}"}}},
				{title: "Group write to this node's disk, p99", unit: "s", queries: []query{{quantile("0.99", "strandline_write_seconds", ofNode, "instance"), byNode}}},
				{title: "Entries per write", hint: "It rises with the load: appends that wait share a write.", unit: "short", queries: []query{{
					fmt.Sprintf("%s / sum by (instance) (rate(strandline_write_seconds_count{%s}[$__rate_interval]))", perSecond("strandline_written_entries_total"), ofNode), byNode,
				}}},
			}},
			{title: "Who lags?", panels: []panel{
				{title: "Largest lag of a replica, in records", unit: "short", queries: []query{{each("strandline_max_lag_records"), "led by " + byNode}}},
				{title: "Elections and lost leaders per second", hint: "About 0. Otherwise look at the disks, the processors and the network.", unit: "short", queries: []query{
					{perSecond("strandline_elections_total"), byNode + " elected"}, {perSecond("strandline_leader_losses_total"), byNode + " lost"},
				}},
				{title: "Reads for followers that lag", unit: "Bps", queries: []query{
					{perSecond("strandline_catch_up_bytes_total"), byNode}, {each("strandline_catch_up_rate_bytes"), byNode + " limit"},
				}},
			}},
			{title: "Do the disks keep up?", panels: []panel{
				{title: "Free", unit: "bytes", queries: []query{{each("strandline_disk_free_bytes"), byNode}}},
				{title: "Used by logs", unit: "bytes", queries: []query{{each("strandline_used_bytes"), byNode}}},
				{title: "Written per second", unit: "Bps", queries: []query{{perSecond("strandline_written_bytes_total"), byNode}}},
				{title: "Scrubbed per second", unit: "Bps", queries: []query{{perSecond("strandline_scrubbed_bytes_total"), byNode}}},
				{title: "Damage and repairs", unit: "short", queries: []query{
					{each("strandline_damaged_total"), byNode + " damaged"}, {each("strandline_lost_replicas_total"), byNode + " lost"},
					{each("strandline_unreadable_total"), byNode + " unreadable"}, {each("strandline_repaired_entries_total"), byNode + " entries repaired"},
				}},
				{title: "Holds broken in an hour", unit: "short", queries: []query{{fmt.Sprintf("increase(strandline_broken_holds_total{%s}[1h])", ofNode), byNode}}},
			}},
			{title: "Does the archive follow?", panels: []panel{
				{title: "Oldest record that is not archived", hint: "About 5 min, --archive-after, is usual. 0 without an archive.", unit: "s", queries: []query{{each("strandline_archive_lag_seconds"), "led by " + byNode}}},
				{title: "Bytes that are not archived", unit: "bytes", queries: []query{{each("strandline_archive_lag_bytes"), "led by " + byNode}}},
				{title: "Archived per second, and failures", unit: "Bps", queries: []query{
					{perSecond("strandline_archived_bytes_total"), byNode}, {perSecond("strandline_archive_failures_total"), byNode + " failures"},
				}},
			}},
			{title: "Is there memory, and which limit is near?", panels: []panel{
				{title: "Memory by part, of its limit", hint: "Newcomers are refused with BUSY at 1. docs/limits.md lists the parts.", unit: "percentunit", queries: []query{{
					fmt.Sprintf("%s / (%s > 0)", each("strandline_memory_used_bytes"), each("strandline_memory_size_bytes")), byNode + " {{part}}",
				}}},
				{title: "Memory by part", unit: "bytes", stacked: true, queries: []query{{fmt.Sprintf("sum by (part) (%s)", each("strandline_memory_used_bytes")), "{{part}}"}}},
				{title: "Memory of the process", unit: "bytes", queries: []query{{each("process_resident_memory_bytes"), byNode}}},
				{title: "Unanswered appends, of their limit", unit: "percentunit", queries: []query{{
					fmt.Sprintf("%s / %s", each("strandline_grpc_append_in_flight_bytes"), each("strandline_grpc_append_in_flight_limit_bytes")), byNode + " gRPC",
				}}},
				{title: "Kafka's budgets in use", unit: "bytes", queries: []query{
					{each("strandline_kafka_produce_in_flight_bytes"), byNode + " Produce"}, {each("strandline_kafka_fetch_bytes"), byNode + " Fetch"}, {each("strandline_kafka_call_bytes"), byNode + " others"},
				}},
				{title: "Open sessions", unit: "short", queries: []query{{each("strandline_open_sessions"), byNode}}},
				{title: "Processors in use", unit: "short", queries: []query{{perSecond("process_cpu_seconds_total"), byNode}}},
				{title: "Goroutines", unit: "short", queries: []query{{each("go_goroutines"), byNode}}},
				{title: "Connections refused per second", unit: "short", queries: []query{{
					fmt.Sprintf("sum by (port, reason) (rate(strandline_connections_refused_total{%s}[$__rate_interval]))", ofNode), "{{port}} {{reason}}",
				}}},
			}},
			{title: "Certificates and audit", panels: []panel{
				{title: "Certificate expires in", unit: "s", queries: []query{{fmt.Sprintf("(%s > 0) - time()", each("strandline_certificate_expiry_timestamp_seconds")), byNode}}},
				{title: "Certificates that could not be used", unit: "short", queries: []query{
					{each("strandline_certificate_reload_failures_total"), byNode + " reloads failed"}, {each("strandline_peer_identity_refused_total"), byNode + " nodes refused"},
				}},
				{title: "Audit entries per second", unit: "short", queries: []query{
					{perSecond("strandline_audit_entries_total"), byNode}, {perSecond("strandline_audit_entries_lost_total"), byNode + " lost"},
				}},
			}},
		},
	}
}

// ofLog selects the series of the log that is chosen.
const ofLog = `instance=~"$instance",log="$log"`

func logBoard() dashboard {
	each := func(name string) string { return fmt.Sprintf("%s{%s}", name, ofLog) }
	all := func(of, name string) string { return fmt.Sprintf("%s(%s)", of, each(name)) }
	rate := func(name string) string {
		return fmt.Sprintf("sum by (instance) (rate(%s{%s}[$__rate_interval]))", name, ofLog)
	}
	ratio := func(a, b string) string { return rate(a) + " / " + rate(b) }
	number := func(title, expr string, bad float64, hint string) panel {
		return panel{title: title, hint: hint, unit: "short", number: true, bad: bad, queries: []query{{expr, ""}}}
	}
	return dashboard{
		file: "log.json", uid: "strandline-log", title: "Strandline: one log", selector: ofLog, ofLog: true,
		about:     "One log, by question. Prometheus must scrape /metrics/logs: docs/monitoring.md. Made from docs/metrics.md by deploy/grafana.",
		variables: []variable{instances("strandline_log_end_offset"), logs()},
		rows: []row{
			{title: "Is it healthy?", panels: []panel{
				number("Leaders", all("sum", "strandline_log_leading"), 2, "1, or for a moment 0 or 2 while the leader changes."),
				number("Replicas that know no leader", all("sum", "strandline_log_leaderless"), 1, "They take no appends."),
				number("Replicas that cannot be served", all("sum", "strandline_log_failed"), 1, "strandline log info says why."),
				number("Replicas under repair", all("sum", "strandline_log_repairing"), 1, ""),
				number("Replicas that are missing", all("sum", "strandline_log_missing_replicas"), 1, "The loss of another node may stop the log."),
				number("Records that can be read", all("max", "strandline_log_end_offset")+" - "+all("max", "strandline_log_start_offset"), 0, ""),
			}},
			{title: "How much work is there?", panels: []panel{
				{title: "Records appended per second", unit: "short", stacked: true, queries: []query{{rate("strandline_log_appended_records_total"), byNode}}},
				{title: "Bytes appended per second", unit: "Bps", stacked: true, queries: []query{{rate("strandline_log_appended_bytes_total"), byNode}}},
				{title: "Offsets", unit: "short", queries: []query{{all("max", "strandline_log_end_offset"), "end"}, {all("max", "strandline_log_start_offset"), "start"}}},
			}},
			{title: "Where does the time of a write go?", panels: []panel{
				{title: "Group write, mean", hint: "The stages of appends are on the dashboard of the cluster: a node measures them for all its logs together.", unit: "s", queries: []query{{ratio("strandline_log_write_seconds_total", "strandline_log_writes_total"), byNode}}},
				{title: "Entries per write", unit: "short", queries: []query{{ratio("strandline_log_written_entries_total", "strandline_log_writes_total"), byNode}}},
				{title: "Written per second", unit: "Bps", queries: []query{{rate("strandline_log_written_bytes_total"), byNode}}},
			}},
			{title: "Who lags?", panels: []panel{
				{title: "Followers, in records", unit: "short", queries: []query{{each("strandline_log_follower_lag_records"), "{{node}}"}}},
				{title: "Read replicas, in records", unit: "short", queries: []query{{each("strandline_log_read_replica_lag_records"), "{{node}}"}}},
				{title: "Terms and elections", hint: "Both rise when the leader changes.", unit: "short", queries: []query{{all("max", "strandline_log_term"), "term"}, {rate("strandline_log_elections_total"), byNode + " elections per second"}}},
			}},
			{title: "Who writes?", panels: []panel{
				{title: "Holder of the writer lease", unit: "short", queries: []query{{each("strandline_log_writer"), "{{name}}"}}},
				{title: "Writer terms and programs in line", unit: "short", queries: []query{{all("max", "strandline_log_writer_term"), "term"}, {all("sum", "strandline_log_writers_waiting"), "in line"}}},
				{title: "Open sessions", unit: "short", queries: []query{{each("strandline_log_open_sessions"), byNode}}},
			}},
			{title: "What takes the disk?", panels: []panel{
				{title: "Used", unit: "bytes", queries: []query{{each("strandline_log_used_bytes"), byNode}}},
				{title: "Kept by holds", hint: "The client of the largest hold moves or releases it.", unit: "bytes", queries: []query{{each("strandline_log_hold_kept_bytes"), "{{hold}}"}}},
				{title: "Offsets of holds", unit: "short", queries: []query{{each("strandline_log_hold_offset"), "{{hold}}"}}},
			}},
			{title: "Are the stored bytes intact?", panels: []panel{
				{title: "Damage and repairs", unit: "short", queries: []query{
					{each("strandline_log_damaged_total"), byNode + " damaged"}, {each("strandline_log_lost_replicas_total"), byNode + " lost"},
					{each("strandline_log_unreadable_total"), byNode + " unreadable"}, {each("strandline_log_repaired_entries_total"), byNode + " entries repaired"},
				}},
				{title: "Not covered by the digest yet", unit: "bytes", queries: []query{{each("strandline_log_digest_trails_bytes"), byNode}}},
			}},
		},
	}
}
