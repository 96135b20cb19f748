package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/workload"
)

var subject = Subject{System: "Strandline", Client: "Go client", Durability: "fsync, 1 of 1", Disk: "as it is"}

func appendsRow(connections int) Row {
	latency := limit.NewHistogram()
	for us := 1; us <= 1000; us++ {
		limit.Observe(latency, time.Duration(us)*time.Microsecond)
	}
	return Appends(subject, workload.AppendsResult{
		Connections: connections,
		ValueBytes:  2048,
		Rate:        limit.Rate{Count: 100_000, Elapsed: 2 * time.Second, ClientTime: 1250 * time.Millisecond, ServerTime: -1},
		Latency:     latency,
	})
}

func write(t *testing.T, w Writer, rows ...Row) {
	t.Helper()
	for _, r := range rows {
		require.NoError(t, w.Row(r))
	}
	require.NoError(t, w.Close())
}

func TestJSONIsOneObjectALineInTheOrderDocumented(t *testing.T) {
	cost := limit.SyncCost{Bytes: 2048, Synced: limit.NewHistogram()}
	limit.Observe(cost.Synced, 60*time.Microsecond)
	second := limit.Throughput{Bytes: 1500 << 20, Elapsed: time.Second}

	var out strings.Builder
	write(t, JSON(&out),
		appendsRow(128),
		Read(subject, workload.ReadResult{Readers: 4, Records: 768_000, Throughput: second, ClientTime: 3 * time.Second, ServerTime: -1}, Uncached),
		Echo("grpc_echo", 128, limit.Rate{Count: 35_000, Elapsed: time.Second, ClientTime: 700 * time.Millisecond, ServerTime: 350 * time.Millisecond}),
		Fdatasync(cost),
		Cat(second, Cached),
		Stream("grpc_stream", 4, second),
		Ratio("appends", "grpc_echo", 128, 0.71428),
	)
	require.Equal(t, `{"benchmark":"appends","system":"Strandline","client":"Go client","durability":"fsync, 1 of 1","disk":"as it is","loop":"closed","connections":128,"appends_per_s":50000,"mib_per_s":97.7,"p50_us":500.2,"p99_us":990.2,"p999_us":999.4,"client_cpu_us":12.5,"server_cpu_us":""}
{"benchmark":"read","system":"Strandline","client":"Go client","durability":"fsync, 1 of 1","disk":"as it is","readers":4,"cache":"uncached","mib_per_s":1500,"records_per_s":768000,"client_cpu_us_per_mib":2000,"server_cpu_us_per_mib":""}
{"limit":"grpc_echo","connections":128,"per_s":35000,"client_cpu_us":20,"server_cpu_us":10}
{"limit":"fdatasync","bytes":2048,"p50_us":60,"p99_us":60}
{"limit":"cat","cache":"cached","mib_per_s":1500}
{"limit":"grpc_stream","connections":4,"mib_per_s":1500}
{"ratio":"appends/grpc_echo","connections":128,"value":0.714}
`, out.String())
}

func TestRowsOfAnotherShapeBeginAnotherTable(t *testing.T) {
	rows := []Row{
		{{"limit", "tcp_echo"}, {"connections", 1}, {"per_s", 86000.4}},
		{{"limit", "grpc_echo"}, {"connections", 128}, {"per_s", 35.04}},
		{{"limit", "cat"}, {"mib_per_s", 6300.0}},
	}
	var table strings.Builder
	write(t, Table(&table), rows...)
	require.Equal(t, `limit      connections  per_s
tcp_echo   1            86000
grpc_echo  128          35

limit  mib_per_s
cat    6300

`, table.String())

	var csv strings.Builder
	write(t, CSV(&csv), rows...)
	require.Equal(t, `limit,connections,per_s
tcp_echo,1,86000
grpc_echo,128,35

limit,mib_per_s
cat,6300
`, csv.String())
}

func TestTheEnvironmentStandsAboveEveryTable(t *testing.T) {
	e := Environment{Machine: "2 x some CPU", Disk: "/data (ext4)", Fdatasync: limit.SyncCost{Synced: limit.NewHistogram()}, Software: "Strandline 1.2"}
	limit.Observe(e.Fdatasync.Synced, 60*time.Microsecond)
	var out strings.Builder
	w := Table(&out)
	require.NoError(t, w.Environment(e))
	write(t, w)
	require.Equal(t, `machine   2 x some CPU
disk      /data (ext4), write + fdatasync of 2 KiB p50 60 us, p99 60 us
software  Strandline 1.2

`, out.String())
}

func TestBothWritersGetEverything(t *testing.T) {
	var a, b strings.Builder
	write(t, Both(JSON(&a), CSV(&b)), appendsRow(1), appendsRow(2))
	require.Equal(t, 2, strings.Count(a.String(), "\n"))
	require.Equal(t, 3, strings.Count(b.String(), "\n"))
}

func TestAFigureThatCannotBeKnownIsZero(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		data, err := Row{{"limit", v}}.MarshalJSON()
		require.NoError(t, err)
		require.JSONEq(t, `{"limit":0}`, string(data))
	}
}
