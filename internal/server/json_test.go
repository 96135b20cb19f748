package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startJSON starts a node for calls as JSON, with a log named orders.
func startJSON(t *testing.T, change ...func(*Options)) *Server {
	t.Helper()
	o := alone(t, t.TempDir())
	for _, c := range change {
		c(&o)
	}
	n, err := Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	status, answer := post(t, n, "CatalogService/CreateLog", `{"name":"orders"}`)
	require.Equal(t, http.StatusOK, status, answer)
	return n
}

// unspaced is JSON without the blanks that protobuf's has in some builds, for nobody to rely on.
func unspaced(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, `, "`, `,"`), `": `, `":`)
}

// post makes a call and returns the status of HTTP with all of the answer.
func post(t *testing.T, n *Server, method, text string) (status int, answer string) {
	t.Helper()
	r, err := http.Post("http://"+n.HTTP()+"/strandline.v1."+method, "application/json", strings.NewReader(text))
	require.NoError(t, err)
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, unspaced(string(all))
}

var blank = regexp.MustCompile(`\s+`)

// The shell blocks of docs/http.md are run as they stand, at the port of a node of the test. What a block answers has
// the parts of the block of JSON behind it, in their order; "..." stands for anything between.
func TestTheExamplesOfTheHTTPPageWork(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/http.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```\n(?:\n```json\n(.*?)^```\n)?").FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(blocks), 6)
	o := alone(t, t.TempDir())
	n, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	for _, block := range blocks {
		script := strings.ReplaceAll(block[1], "127.0.0.1:7271", n.HTTP())
		command := exec.CommandContext(t.Context(), "sh", "-ec", script)
		command.Dir = t.TempDir()
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s%s", script, out)
		rest := blank.ReplaceAllString(string(out), "") // protobuf's JSON has blanks in some builds, for nobody to rely on
		for _, part := range strings.Split(blank.ReplaceAllString(block[2], ""), "...") {
			_, behind, found := strings.Cut(rest, part)
			require.True(t, found, "%s\nis answered with\n%s\nin which is no\n%s", script, out, part)
			rest = behind
		}
	}
}

func TestRecordsAppendedAsJSONAreFollowedAsJSONUntilTheServerStops(t *testing.T) {
	t.Parallel()
	o := alone(t, t.TempDir())
	n, err := Start(o)
	require.NoError(t, err)
	status, answer := post(t, n, "CatalogService/CreateLog", `{"name":"orders"}`)
	require.Equal(t, http.StatusOK, status, answer)
	r, err := http.Post("http://"+n.HTTP()+"/strandline.v1.LogService/Read", "application/json", strings.NewReader(`{"log":"orders","follow":true}`))
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, "application/x-ndjson", r.Header.Get("Content-Type"))
	lines := bufio.NewReader(r.Body)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, unspaced(line), `"recordCount":0`, "a read that follows says where it begins")

	status, answer = post(t, n, "LogService/Append", `{"log":"orders","records":[{"value":"b25l"}]} {"records":[{"value":"dHdv"}]}`)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 2, strings.Count(answer, "\n"), answer)
	require.Contains(t, answer, `"endOffset":"2"`)
	var values []string
	for len(values) < 2 {
		line, err = lines.ReadString('\n')
		require.NoError(t, err)
		var frame struct {
			Result struct{ Records []struct{ Value []byte } }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &frame))
		for _, r := range frame.Result.Records {
			values = append(values, string(r.Value))
		}
	}
	require.Equal(t, []string{"one", "two"}, values)

	began := time.Now()
	require.NoError(t, n.Close())
	require.Less(t, time.Since(began), CloseTime, "a reader does not hold up the end")
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Contains(t, string(rest), `{"error":{"code":"UNAVAILABLE","reason":"SHUTTING_DOWN",`)
	require.Zero(t, n.node.Memory().Texts.Used())
}

func TestAStreamOfRequestsAsJSONIsAnsweredWhileItLasts(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	send, sent := io.Pipe()
	defer sent.Close()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+n.HTTP()+"/strandline.v1.LogService/Append", send)
	require.NoError(t, err)
	q.Header.Set("Content-Type", "application/x-ndjson")
	go func() { _, _ = io.WriteString(sent, `{"log":"orders","records":[{"value":"b25l"}]}`+"\n") }()
	r, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer r.Body.Close()
	lines := bufio.NewReader(r.Body)
	for i := range 3 {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, unspaced(line), fmt.Sprintf(`"firstOffset":"%d"`, i))
		_, err = io.WriteString(sent, `{"records":[{"value":"bW9yZQ=="}]}`+"\n")
		require.NoError(t, err)
	}
	_, err = io.WriteString(sent, "{]\n")
	require.NoError(t, err)
	_, err = lines.ReadString('\n')
	require.NoError(t, err)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, `{"error":{"code":"INVALID_ARGUMENT","reason":"INVALID",`, "what was not understood is no end of the requests")
	_, answer := post(t, n, "LogService/GetInfo", `{"log":"orders"}`)
	require.Contains(t, answer, `"endOffset":"4"`)
}

func TestATextThatIsTooLargeIsRefusedBeforeItIsDecodedAndHoldsNothing(t *testing.T) {
	t.Parallel()
	n := startJSON(t, func(o *Options) { o.Node.Memory = 64 << 20 })
	for method, text := range map[string]string{
		"CatalogService/CreateLog": `{"name":"` + strings.Repeat("x", 2<<20) + `"}`,
		"LogService/Append":        `{"log":"orders","records":[{"value":"` + strings.Repeat("x", 8<<20) + `"}]}`,
		"AccessService/AddGrants":  `{"grants":[` + strings.Repeat("{},", 100_000) + `{}]}`,
	} {
		status, answer := post(t, n, method, text)
		require.Equal(t, http.StatusBadRequest, status, "%s: %s", method, answer)
		require.Contains(t, answer, `"reason":"TOO_LARGE"`, method)
		require.Contains(t, answer, `"retryable":false,"outcome":"not_done"`, method)
	}
	require.Zero(t, n.node.Memory().Texts.Used())
}

func TestAReaderThatLeavesHoldsNothing(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	value := strings.Repeat("eHh4", 64<<10)
	for range 8 {
		status, answer := post(t, n, "LogService/Append", `{"log":"orders","records":[{"value":"`+value+`"}]}`)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, answer, "appended")
	}
	for range 4 {
		conn, err := net.Dial("tcp", n.HTTP())
		require.NoError(t, err)
		_, err = io.WriteString(conn, "POST /strandline.v1.LogService/Read HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 31\r\n\r\n{\"log\":\"orders\",\"follow\": true}")
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 4096))
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return n.node.Memory().Texts.Used() == 0 && n.node.Memory().Reads.Used() == 0 }, time.Minute, time.Millisecond)
}

// Whether a request is being decoded when its stream ends is a matter of chance: several streams end at various times.
func TestStreamsOfLargeRequestsThatEndHoldNothing(t *testing.T) {
	t.Parallel()
	request := `{"log":"orders","records":[{"value":"` + strings.Repeat("eHh4", 512<<10) + `"}]}`
	streams := func(n *Server, timeout func(i int) string, during func(conn net.Conn, i int)) {
		for i := range 12 {
			conn, err := net.Dial("tcp", n.HTTP())
			require.NoError(t, err)
			_, err = fmt.Fprintf(conn, "POST /strandline.v1.LogService/Append HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nGrpc-Timeout: %s\r\nContent-Length: 1000000000\r\n\r\n", timeout(i))
			require.NoError(t, err)
			go func() {
				for err == nil {
					_, err = io.WriteString(conn, request)
				}
			}()
			during(conn, i)
		}
	}
	soon := func(i int) string { return fmt.Sprintf("%dm", 5+3*i) }
	never := func(int) string { return "1H" }
	ends := func(conn net.Conn, _ int) {
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(t, err, "the answer is whole")
		require.NoError(t, conn.Close())
	}
	holdsNothing := func(n *Server) {
		require.Eventually(t, func() bool { return n.node.Memory().Texts.Used() == 0 && n.node.Memory().SentTexts.Used() == 0 }, time.Minute, time.Millisecond)
	}

	o := alone(t, t.TempDir())
	o.Node.Memory = 1 << 30
	n, err := Start(o)
	require.NoError(t, err)
	status, answer := post(t, n, "CatalogService/CreateLog", `{"name":"orders"}`)
	require.Equal(t, http.StatusOK, status, answer)
	streams(n, soon, ends)
	holdsNothing(n)
	streams(n, never, func(conn net.Conn, i int) {
		_, _ = io.CopyN(io.Discard, conn, int64(20*i)) // of the answers
		require.NoError(t, conn.Close())
	})
	holdsNothing(n)
	streams(n, never, func(conn net.Conn, _ int) { t.Cleanup(func() { _ = conn.Close() }) })
	require.NoError(t, n.Close())
	holdsNothing(n)
}

func TestAStreamOfAnswersHoldsNothingOfItsRequest(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	for method, more := range map[string]string{"Read": `,"follow":true}`, "WatchInfo": "}"} {
		text := `{"log":"orders"` + strings.Repeat(" ", 512<<10) + more
		r, err := http.Post("http://"+n.HTTP()+"/strandline.v1.LogService/"+method, "application/json", strings.NewReader(text))
		require.NoError(t, err)
		defer r.Body.Close()
		_, err = bufio.NewReader(r.Body).ReadString('\n')
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return n.node.Memory().Texts.Used() == 0 && n.node.Memory().SentTexts.Used() == 0 }, time.Minute, time.Millisecond)
}

func TestPagesOfOtherSitesMayNotCall(t *testing.T) {
	t.Parallel()
	n := startJSON(t, func(o *Options) { o.HTTPOrigins = []string{"https://console.example"} })
	call := func(method string, headers ...string) *http.Response {
		q, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.HTTP()+"/strandline.v1.AccessService/WhoAmI", strings.NewReader("{}"))
		require.NoError(t, err)
		q.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			q.Header.Set(headers[i], headers[i+1])
			if headers[i] == "Host" {
				q.Host = headers[i+1]
			}
		}
		r, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		return r
	}
	require.Equal(t, http.StatusOK, call(http.MethodPost).StatusCode)
	require.Equal(t, http.StatusOK, call(http.MethodPost, "Origin", "http://"+n.HTTP()).StatusCode, "its own pages")
	for _, headers := range [][]string{
		{"Origin", "https://attacker.example"}, {"Origin", "null"}, {"Origin", "https://console.example.attacker.example"},
		{"Origin", "http://console.example"}, {"Sec-Fetch-Site", "cross-site"},
	} {
		r := call(http.MethodPost, headers...)
		require.Equal(t, http.StatusForbidden, r.StatusCode, headers)
		require.Empty(t, r.Header.Get("Access-Control-Allow-Origin"), headers)
	}
	r := call(http.MethodPost, "Host", "attacker.example", "Origin", "http://attacker.example")
	require.Equal(t, http.StatusMisdirectedRequest, r.StatusCode, "a name that leads here does not make a page its own")
	r = call(http.MethodPost, "Content-Type", "text/plain")
	require.Equal(t, http.StatusUnsupportedMediaType, r.StatusCode, "forms may send it anywhere")
	require.Equal(t, http.StatusMethodNotAllowed, call(http.MethodGet).StatusCode)

	r = call(http.MethodPost, "Origin", "https://console.example")
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Equal(t, "https://console.example", r.Header.Get("Access-Control-Allow-Origin"))
	require.Empty(t, r.Header.Get("Access-Control-Allow-Credentials"), "there are no cookies")
	r = call(http.MethodOptions, "Origin", "https://console.example", "Access-Control-Request-Method", "POST")
	require.Equal(t, http.StatusNoContent, r.StatusCode)
	require.Contains(t, r.Header.Get("Access-Control-Allow-Headers"), "Authorization")
	r = call(http.MethodOptions, "Origin", "https://attacker.example", "Access-Control-Request-Method", "POST")
	require.Equal(t, http.StatusForbidden, r.StatusCode)
}

func TestLinesOfARequestAreCountedInItsHeadersAlone(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	conn, err := net.Dial("tcp", n.HTTP())
	require.NoError(t, err)
	defer conn.Close()
	from := bufio.NewReader(conn)
	body := `{"log":"orders"` + strings.Repeat("\n ", 5_000) + "}" // more than is read at once
	request := func(headers string) (*http.Response, error) {
		_, err := fmt.Fprintf(conn, "POST /strandline.v1.LogService/GetInfo HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", headers, len(body), body)
		if err != nil {
			return nil, err
		}
		r, err := http.ReadResponse(from, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		return r, err
	}
	for range 2 {
		r, err := request("")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, r.StatusCode)
	}
	var many bytes.Buffer
	for i := range 200 {
		fmt.Fprintf(&many, "X-%d: y\r\n", i)
	}
	r, err := request(many.String())
	require.True(t, err != nil || r.StatusCode != http.StatusOK, "a later request has no more lines than the first")
}
