package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

func (c *cluster) info(log string) object {
	c.Helper()
	return c.must("a", "LogService/GetInfo", object{"log": log})["info"].(object)
}

// configure changes settings of a log, as another administrator does.
func (c *cluster) configure(log string, changes object) {
	c.Helper()
	config := c.info(log)["config"].(object)
	for name, value := range changes {
		config[name] = value
	}
	c.must("a", "CatalogService/ConfigureLog", object{"name": log, "config": config})
}

func TestAFormOfSettingsKeepsWhatOthersChanged(t *testing.T) {
	c := start(t, 5)
	c.create("orders")
	b := open(t, look{1280, "light"})
	b.visit(c.url("a") + "/#/logs/orders")
	b.sees("Nothing is held.")
	c.configure("orders", object{"fenced": true, "retention": "7200s"})
	b.sees("2 h")

	b.click("Settings …")
	b.fill("Keep at most", "10GiB")
	b.sees("strandline log configure orders --retention-bytes 10GiB")
	b.does("Settings", "Done.")
	b.click("Close")
	config := c.info("orders")["config"].(object)
	require.Equal(t, true, config["fenced"])
	require.Equal(t, "7200s", config["retention"])
	require.Equal(t, "10737418240", config["retentionBytes"])

	b.click("Settings …")
	b.fill("Keep at most", "20GiB")
	c.configure("orders", object{"retention": "10800s"})
	c.append("orders", 3) // of which the page hears, and of the configuration with it
	b.sees("3 h")
	b.click("Settings")
	b.sees("PRECONDITION")
	require.Equal(t, "10737418240", c.info("orders")["config"].(object)["retentionBytes"])
}

func TestADialogActsOnTheLogForWhichItWasOpened(t *testing.T) {
	c := start(t, 6)
	c.create("orders")
	hold := object{"name": "backup", "offset": "0"}
	c.must("a", "LogService/SetHold", object{"log": "orders", "hold": hold})
	b := open(t, look{1280, "light"})
	b.visit(c.url("a") + "/#/logs/orders")
	b.click("Release …")
	eval[bool](b, `(() => { const real = fetch; window.sent = []; window.fetch = (to, q) => { sent.push([String(to), q?.body]); return real(to, q) }; return true })()`)
	b.does("Release", "Done.")
	require.Equal(t, c.info("orders")["id"], eval[string](b, `JSON.parse(sent.find(([to]) => to.includes('ReleaseHold'))[1]).logId`))
	b.click("Close")
	b.sees("Nothing is held.")

	for n, opened := range []string{"Set a hold …", "Delete …"} {
		b.visit(c.url("a") + "/#/logs/orders")
		b.click(opened)
		if opened == "Delete …" {
			b.fill("Type orders", "orders")
		} else {
			b.fill("Name", "backup")
		}
		c.must("a", "CatalogService/DeleteLog", object{"name": "orders"})
		c.create("orders")
		c.append("orders", 7+n)
		b.sees(fmt.Sprintf("0 to %d", 7+n))
		b.click(opened[:len(opened)-len(" …")])
		b.sees("LOG_REPLACED")
		require.Empty(t, c.info("orders")["holds"])
	}
}

func TestJSONIsShownAndCopiedWithTheNumbersThatAreStored(t *testing.T) {
	c := start(t, 7)
	c.create("orders")
	value := `{"id":9007199254740993, "rate":1.10,"none": { },"all":[ ],"text":"a\",{ \\","list":[1e400,-0,[true,null]]}`
	c.must("a", "LogService/Append", object{"log": "orders", "records": []object{{"value": []byte(value)}}})
	b := open(t, look{1280, "light"})
	b.visit(c.url("a") + "/#/logs/orders/records")
	b.sees("1 record, 0 to 0.")
	b.do(chromedp.Click(".record-rows .space .row", chromedp.ByQuery))
	b.sees("9007199254740993,\n")
	require.Equal(t, "{\n  \"id\": 9007199254740993,\n  \"rate\": 1.10,\n  \"none\": {},\n  \"all\": [],\n  \"text\": \"a\\\",{ \\\\\",\n  \"list\": [\n    1e400,\n    -0,\n    [\n      true,\n      null\n    ]\n  ]\n}",
		eval[string](b, `document.querySelector('.detail pre').textContent`))
	eval[bool](b, `Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { window.copied = text } } }) && document.querySelector('.detail .copy').click() || true`)
	b.until(`window.copied !== undefined`, "something is copied")
	require.Equal(t, value, eval[string](b, `window.copied`))
}

func TestTheCommandForAnAppendAppendsTheSameRecord(t *testing.T) {
	c := start(t, 8)
	c.create("orders")
	path, err := program()
	require.NoError(t, err)
	b := open(t, look{1280, "light"})
	for _, with := range []struct{ value, key, headers string }{{"-n one\ntwo's \\n\n", "", ""}, {"", "-k 'x'", ""}, {`{"id":9007199254740993}`, "k", "a=b=c\nd=\\t"}} {
		b.visit(c.url("a") + "/#/logs/orders/records")
		b.click("Append …")
		b.fill("Value", with.value)
		b.fill("Key", with.key)
		b.fill("Headers", with.headers)
		b.sees("-i json")
		shell := exec.Command("/bin/sh", "-c", eval[string](b, `document.querySelector('dialog .command code').textContent`))
		shell.Env = append(os.Environ(), "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"), "STRANDLINE_SERVER="+c.address("a", 17171))
		out, err := shell.CombinedOutput()
		require.NoError(t, err, "%s", out)
		b.does("Append", "Appended at offset")
	}
	records := eval[[]any](b, `(async () => {
		const { stream } = await import('/console/api.js')
		const all = []
		await stream('LogService/Read', { log: 'orders', offset: '0', maxRecords: '6' }, (frame) => all.push(...frame.records))
		return all
	})()`)
	require.Len(t, records, 6)
	for i := 0; i < len(records); i += 2 {
		require.NotEmpty(t, records[i].(object)["offset"])
		for _, name := range []string{"key", "value", "headers"} {
			require.Equal(t, records[i].(object)[name], records[i+1].(object)[name], name)
		}
	}
}

func TestAnAddressThatCannotBeDecodedIsNoPage(t *testing.T) {
	c := start(t, 9)
	b := open(t, look{1280, "light"})
	b.visit(c.url("a") + "/#/logs/%")
	b.sees("There is no such page")
	b.visit(c.url("a") + "/#/logs")
	b.sees("There is no log yet.")
	eval[bool](b, `(location.hash = '#/logs/%') && true`)
	b.sees("There is no such page")
	b.hasNoErrors("address")
}
