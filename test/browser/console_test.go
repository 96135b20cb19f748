package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// pages are all, with what each shows when it is complete.
var pages = []struct{ name, path, shows string }{
	{"cluster", "#/cluster", "Nothing is wrong"},
	{"logs", "#/logs", "payments"},
	{"log", "#/logs/orders", "backup"},
	{"records", "#/logs/orders/records", "200 records, "},
	{"groups", "#/groups", "billing"},
	{"group", "#/groups/billing", "Coordinator"},
	{"access", "#/access", "user/alice"},
	{"events", "#/events", "Nothing has changed yet"},
}

func TestEveryPageIsWellInEachWidthAndTheme(t *testing.T) {
	c := start(t, 1)
	for _, log := range []string{"orders", "payments", "audit"} {
		c.create(log)
	}
	c.append("orders", 600)
	c.must("a", "LogService/SetHold", object{"log": "orders", "hold": object{"name": "backup", "offset": "120", "owner": "ops", "lease": "43200s"}})
	c.must("a", "AccessService/AddGrants", object{"grants": []object{{"principal": "user/alice", "object": "log/orders*", "rights": []string{"append", "read"}}}})
	c.must("a", "AccessService/CreateAccessToken", object{"user": "alice", "lifetime": "604800s"})
	at := c.coordinatorOf("orders")
	for _, l := range looks {
		t.Run(fmt.Sprintf("%d %s", l.width, l.theme), func(t *testing.T) {
			b := open(t, l)
			for _, p := range pages {
				node := "a"
				if strings.HasPrefix(p.name, "group") {
					node = at
				}
				b.visit(c.url(node) + "/" + p.path)
				b.sees(p.shows)
				if p.name == "records" {
					b.do(chromedp.Click(".record-rows .space .row", chromedp.ByQuery))
					b.sees("Lisboa")
				}
				if p.name == "cluster" || p.name == "log" { // charts begin with the second sample
					c.append("orders", 40)
					b.until(`performance.now() > 5000`, "some time")
				}
				b.shoot(fmt.Sprintf("%s-%d-%s", p.name, l.width, l.theme))
				b.isWell(p.name)
			}
		})
	}
}

// coordinatorOf has the group billing commit an offset in a topic, and returns the node that coordinates it.
func (c *cluster) coordinatorOf(topic string) (at string) {
	c.Helper()
	commit := object{"group": "billing", "offsets": []object{{"topic": topic, "offset": "2"}}}
	require.Eventually(c, func() bool {
		for _, node := range names {
			if _, reason := c.call(node, "GroupService/SetGroupOffsets", commit); reason == "" {
				at = node
				return true
			}
		}
		return false
	}, waits, step)
	return at
}

func TestEachActionDoesWhatItSays(t *testing.T) {
	c := start(t, 2)
	b := open(t, look{1280, "light"})
	b.visit(c.url("a") + "/#/logs")
	b.sees("There is no log yet.")
	b.shoot("empty")

	b.click("Create a log …")
	b.fill("Name", "orders")
	b.fill("Keep for", "7d")
	b.sees("strandline log create orders --retention 7d")
	b.shoot("create")
	b.does("Create a log", "Created, and ready for records.")
	b.click("Close")
	c.isLed("orders")

	b.visit(c.url("a") + "/#/logs/orders/records")
	b.sees("This log has no records.")
	b.click("Append …")
	b.fill("Value", `{"order": 1}`)
	b.fill("Key", "eu/1")
	b.sees(`printf '%s\n' '{"key":"eu/1","value":"{\"order\": 1}"}' | strandline append orders -i json`)
	b.does("Append", "Appended at offset 0.")
	b.shoot("appended")
	b.click("Close")
	b.sees("1 record, 0 to 0.")

	b.click("Follow")
	c.append("orders", 5)
	b.sees("6 records shown.")
	b.click("Stop")
	b.click("Filter")
	b.fill("Expression", "value.amount > 5.0")
	b.click("Select on the server")
	b.sees("3 records, 3 to 5.")
	b.shoot("filtered")
	b.click("Clear")
	b.sees("6 records, 0 to 5.")
	b.fill("Go to an offset or a time", "4")
	eval[bool](b, `document.querySelector('[aria-label="Go to an offset or a time"]').form.requestSubmit() || true`)
	b.sees("2 records, 4 to 5.")
	b.click("Hex")
	b.do(chromedp.Click(".record-rows .space .row", chromedp.ByQuery))
	b.sees("00000000  7b 22")

	b.visit(c.url("a") + "/#/logs/orders")
	b.click("Set a hold …")
	b.fill("Name", "backup")
	b.fill("From offset", "2")
	b.does("Set a hold", "Done.")
	b.click("Close")
	b.sees("12 h unrenewed")

	b.click("Trim …")
	b.fill("Remove every record", "4")
	b.sees("The hold backup keeps records from 2 on: the trim is refused.")
	b.fill("Type orders", "orders")
	b.click("Trim")
	b.sees("HELD")
	b.sees("Nothing was changed.")
	b.shoot("refused")
	b.click("Cancel")
	b.click("Release …")
	b.does("Release", "Done.")
	b.click("Close")
	b.sees("Nothing is held.")
	b.click("Trim …")
	b.fill("Remove every record", "4")
	b.sees("Removes 4 records")
	b.fill("Type orders", "orders")
	b.shoot("trim")
	b.does("Trim", "The log starts at 4.")
	b.click("Close")

	b.click("Settings …")
	b.fill("Keep for", "1d")
	b.sees("strandline log configure orders --retention 1d")
	b.does("Settings", "Done.")
	b.click("Close")
	config := c.must("a", "LogService/GetInfo", object{"log": "orders"})["info"].(object)["config"].(object)
	require.Equal(t, "86400s", config["retention"])

	b.click("Compute on this node")
	b.sees("Records 0 to 6")

	b.click("Let lead …")
	b.does("Let lead", " leads.")
	b.click("Close")
	b.visit(c.url("b") + "/#/logs/orders") // which does not lead it: it says who can
	b.click("Trim …")
	b.fill("Remove every record", "5")
	b.fill("Type orders", "orders")
	b.click("Trim")
	b.sees("open its console")
	b.shoot("elsewhere")
	b.click("Cancel")
	b.visit(c.url("a") + "/#/logs/orders")

	b.click("Seal …")
	b.fill("Type orders", "orders")
	b.click("Cancel")
	b.click("Delete …")
	b.fill("Type orders", "orders")
	b.does("Delete", "Deleted.")

	b.visit(c.url("a") + "/#/cluster")
	b.sees("Nothing is wrong")
	b.click("Drain …")
	b.sees("strandline cluster drain a")
	b.does("Drain", "Decided.")
	b.click("Close")
	b.sees("Node a is drained: it leads nothing and may be stopped.")
	b.shoot("drained")
	b.click("Undrain …")
	b.does("Undrain", "Done.")
	b.click("Close")
	b.sees("Nothing is wrong")
	b.hasNoErrors("actions")
	c.mayBeManaged(b)
}

// mayBeManaged changes groups and rights.
func (c *cluster) mayBeManaged(b *tab) {
	c.create("payments")
	c.append("payments", 10)
	at := c.coordinatorOf("payments")
	b.visit(c.url(at) + "/#/groups/billing")
	b.sees("Continues at")
	b.click("Reset offsets …")
	b.click("new records only")
	b.sees("strandline group reset billing --topic payments --to-end")
	b.shoot("reset")
	b.does("Reset offsets", "payments 0 continues at 10")
	b.click("Close")

	b.visit(c.url("a") + "/#/access")
	b.sees("Nothing is granted.")
	b.click("Grant …")
	b.fill("To", "user/alice")
	b.fill("On", "log/pay*")
	b.sees("strandline grant add user/alice read 'log/pay*'")
	b.shoot("grant")
	b.does("Grant", "Done.")
	b.click("Close")
	b.sees("user/alice")
	b.fill("A log, group/NAME or cluster", "payments")
	b.sees("read, observe")
	b.click("Create …")
	b.fill("Acts for the user", "alice")
	b.does("Create", "Copy it now")
	b.click("Close")
	b.click("Revoke …")
	b.does("Revoke", "Done.")
	b.click("Close")
	b.hasNoErrors("groups and rights")
}
