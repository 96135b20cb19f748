package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestANodeThatIsKilledIsNamedWhileOneLooks(t *testing.T) {
	c := start(t, 3)
	c.create("orders")
	b := open(t, look{1280, "light"})
	b.visit(c.url("b") + "/#/cluster")
	b.sees("Nothing is wrong")
	c.kill("a") // which leads
	b.sees("Node a does not answer.")
	b.sees("strandline cluster replace-node a --with NODE")
	b.shoot("killed")
	b.isWell("a node is killed")
	b.until(`(location.hash = '#/events') && document.body.innerText.includes('leads at term')`, "the election of another leader")
	b.sees("Node a does not answer.")
	b.shoot("events")
	b.isWell("events")
	c.run("a")
	b.until(`(location.hash = '#/cluster') && document.body.innerText.includes('Nothing is wrong')`, "that all is well again")

	c.kill("b") // whose console it is
	b.sees("This node does not answer.")
	require.Contains(t, b.text(), "What you see is of", "it keeps what was known")
	b.shoot("silent")
	c.run("b")
	b.seesNot("This node does not answer.")
	b.sees("Nothing is wrong")
}

func TestAViewerSeesNoButtonAndATokenThatEndsAsksForAnother(t *testing.T) {
	c := start(t, 4)
	c.create("orders")
	c.append("orders", 3)
	token := func(user string) string {
		return c.must("a", "AccessService/CreateAccessToken", object{"user": user, "lifetime": "3600s"})["token"].(string)
	}
	viewer := token("viewer")
	c.token = token("admin")
	c.must("a", "AccessService/AddGrants", object{"grants": []object{{"principal": "user/viewer", "object": "cluster", "rights": []string{"observe"}}, {"principal": "user/viewer", "object": "log/*", "rights": []string{"read"}}}})
	c.must("a", "AccessService/EnforceRights", object{"enforced": true, "administrator": "user/admin"})

	b := open(t, look{1280, "light"})
	b.visit(c.url("a") + "/#/cluster")
	b.sees("This cluster enforces rights.")
	b.shoot("signin")
	b.isWell("sign in")
	b.fill("Access token", "wrong")
	b.click("Sign in")
	b.until(`document.querySelector('[role=alert]') !== null`, "that the token is refused")
	b.shoot("signin-refused")
	b.fill("Access token", viewer)
	b.click("Sign in")
	b.sees("Nothing is wrong")
	require.NotContains(t, eval[string](b, `location.href + document.cookie + JSON.stringify(localStorage)`), viewer)

	acts := []string{"Drain …", "Spread replicas …", "Create a log …", "Append …", "Trim …", "Settings …", "Seal …", "Delete …", "Set a hold …", "Let lead …", "Grant …", "Create …", "Add …"}
	for path, shows := range map[string]string{"#/cluster": "Nothing is wrong", "#/logs": "orders", "#/logs/orders": "Nothing is held.", "#/logs/orders/records": "3 records, 0 to 2.", "#/access": "are for administrators"} {
		b.until(fmt.Sprintf(`(location.hash = %q) && document.body.innerText.includes(%q)`, path, shows), "%s", path)
		for _, act := range acts {
			require.False(t, b.hasButton(act), "%s on %s", act, path)
		}
		b.isWell(path)
	}
	b.shoot("viewer")

	id := ""
	for _, one := range c.must("a", "AccessService/ListAccessTokens", object{})["tokens"].([]any) {
		if one.(object)["principal"] == "user/viewer" {
			id = one.(object)["id"].(string)
		}
	}
	c.must("a", "AccessService/RevokeAccessToken", object{"id": id})
	b.sees("The node no longer accepts your token")
	b.fill("Access token", c.token)
	b.click("Sign in")
	b.until(`(location.hash = '#/cluster') && document.body.innerText.includes('user/admin')`, "who is signed in")
	b.until(`document.body.innerText.includes('Drain …')`, "what an administrator may do")
	b.hasNoErrors("rights")
}

// many answers for a cluster of nine nodes and ten thousand logs, in parts as a node does; files come from a real node.
type many struct {
	*httputil.ReverseProxy
	asked int
}

const manyLogs = 10_000

func (m *many) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	isStatus := strings.HasSuffix(q.URL.Path, "/GetClusterStatus")
	if !isStatus && !strings.HasSuffix(q.URL.Path, "/ListLogs") {
		m.ReverseProxy.ServeHTTP(w, q)
		return
	}
	var request struct {
		After string
		Limit int
	}
	if err := json.NewDecoder(q.Body).Decode(&request); err != nil || request.Limit == 0 {
		http.Error(w, "a list of so many in one answer", http.StatusBadRequest)
		return
	}
	m.asked++
	var logs []object
	next := ""
	for i := range manyLogs {
		name := fmt.Sprintf("tenant-%04d.events.%d", i/4, i%4)
		if name <= request.After {
			continue
		}
		if len(logs) == request.Limit {
			next = logs[len(logs)-1]["name"].(string)
			break
		}
		logs = append(logs, m.log(name, i, isStatus))
	}
	answer := object{"logs": logs, "next": next, "nodes": []object{}, "clusterId": "MANY", "level": 4, "defaultRules": []object{}}
	if request.After == "" {
		for i := range 9 {
			answer["nodes"] = append(answer["nodes"].([]object), object{"id": fmt.Sprint(i), "name": node(i), "address": fmt.Sprintf("10.0.0.%d:7171", i), "alive": true, "version": "0.1.0",
				"bytesFree": "700000000000", "bytesTotal": "1000000000000", "memoryUsed": "1000000000", "memoryTotal": "8000000000", "oldestLevel": 1, "newestLevel": 4, "labels": []string{"dc=" + []string{"fra", "ams", "par"}[i%3]}, "drained": false, "waits": []string{}})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func node(i int) string { return string(rune('a' + i)) }

func (m *many) log(name string, i int, status bool) object {
	end := fmt.Sprint(i*100 + m.asked*(i%50))
	if !status {
		return object{"name": name, "id": fmt.Sprint(i + 1), "bytesUsed": fmt.Sprint(i << 16), "startOffset": "0", "endOffset": end, "config": object{}, "replicas": []object{}, "problem": "", "holds": []object{}, "created": "2026-01-01T00:00:00Z"}
	}
	var replicas []object
	for r := range 3 {
		state, lag := "REPLICA_STATE_REPLICATING", "0"
		switch {
		case r == 0:
			state = "REPLICA_STATE_LEADER"
		case i == 7777 && r == 1:
			state, lag = "REPLICA_STATE_PROBING", "1234"
		}
		replicas = append(replicas, object{"replica": fmt.Sprint(i*3 + r), "node": node((i + r) % 9), "role": "REPLICA_ROLE_VOTER", "state": state, "lag": lag, "endOffset": end, "problem": ""})
	}
	return object{"name": name, "id": fmt.Sprint(i + 1), "leader": node(i % 9), "term": "2", "startOffset": "0", "endOffset": end, "healthy": i != 7777, "replicas": replicas, "unmet": []string{}, "creator": ""}
}

func TestTenThousandLogsOnNineNodesAreSearchedAndScrolled(t *testing.T) {
	c := start(t, 5)
	to, err := url.Parse(c.url("a"))
	require.NoError(t, err)
	served := httptest.NewServer(&many{ReverseProxy: httputil.NewSingleHostReverseProxy(to)})
	t.Cleanup(served.Close)
	b := open(t, look{1280, "dark"})
	b.visit(served.URL + "/#/logs")
	b.sees("10,000 logs, 1 not healthy")
	require.Less(t, eval[int](b, `document.querySelectorAll('[role=row]').length`), 100, "rows that nobody sees are not drawn")
	require.Contains(t, eval[string](b, `document.querySelector('.space .row').innerText`), "tenant-1944.events.1", "what hurts is first")
	b.shoot("many")
	b.isWell("many logs")
	b.fill("Search logs by name", "tenant-2499 events.3")
	b.sees("1 match")
	b.sees("tenant-2499.events.3")
	b.fill("Search logs by name", "")
	b.sees("tenant-1944.events.1")
	b.until(`(document.querySelector('.rows').scrollTop = 1e9) && document.querySelectorAll('.space .row').length > 5 && [...document.querySelectorAll('.space .row')].at(-1).getAttribute('aria-rowindex') === '10001'`, "the last row")
	slow := eval[float64](b, `new Promise((done) => { let worst = 0, last = performance.now(), n = 0; const box = document.querySelector('.rows'); const frame = (now) => { worst = Math.max(worst, now - last); last = now; box.scrollTop = (n * 7919) % 290000; ++n < 60 ? requestAnimationFrame(frame) : done(worst) }; requestAnimationFrame(frame) })`)
	t.Logf("the longest of 60 frames while scrolling: %.0f ms", slow)
	b.until(`(location.hash = '#/cluster') && document.body.innerText.includes('10,000')`, "the cluster")
	b.shoot("many-cluster")
	b.isWell("many logs, cluster")
}
