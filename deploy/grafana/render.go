package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// What Grafana 12 reads; later ones bring it up to date when they load it.
const schemaVersion = 41

type object = map[string]any

// variable is a choice at the top of a dashboard.
type variable struct {
	name, label, query string
	several            bool
}

// instances are the nodes that give a metric.
func instances(of string) variable {
	return variable{"instance", "Node", fmt.Sprintf("label_values(%s, instance)", of), true}
}

func logs() variable {
	return variable{"log", "Log", "label_values(strandline_log_end_offset, log)", false}
}

var source = object{"type": "prometheus", "uid": "${datasource}"}

// render returns a dashboard as Grafana imports it.
func render(d dashboard) []byte {
	list := []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": object{}, "hide": 0}}
	for _, v := range d.variables {
		one := object{
			"name": v.name, "label": v.label, "type": "query", "datasource": source, "definition": v.query,
			"query": object{"query": v.query, "refId": v.name}, "refresh": 2, "sort": 1, "multi": v.several, "includeAll": v.several, "hide": 0,
		}
		if v.several {
			one["allValue"], one["current"] = ".*", object{"text": "All", "value": "$__all"}
		}
		list = append(list, one)
	}
	l := layout{}
	for _, r := range d.rows {
		l.row(r)
	}
	whole := object{
		"uid": d.uid, "title": d.title, "description": d.about, "tags": []string{"strandline"}, "schemaVersion": schemaVersion,
		"editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser", "time": object{"from": "now-1h", "to": "now"},
		"templating": object{"list": list}, "panels": l.panels, "annotations": object{"list": []object{}},
		"links": []object{{"title": "Strandline", "type": "dashboards", "tags": []string{"strandline"}, "asDropdown": false, "includeVars": false, "keepTime": true}},
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(whole); err != nil {
		panic(err) // of maps and strings
	}
	return out.Bytes()
}

// layout gives panels their ids and places: 24 columns.
type layout struct {
	panels  []object
	id      int
	x, y, h int
}

func (l *layout) place(width, height int) object {
	if l.x+width > 24 {
		l.end()
	}
	at := object{"x": l.x, "y": l.y, "w": width, "h": height}
	l.x, l.h = l.x+width, max(l.h, height)
	return at
}

// end begins a new line.
func (l *layout) end() { l.x, l.y, l.h = 0, l.y+l.h, 0 }

func (l *layout) row(r row) {
	l.end()
	l.id++
	head := object{"id": l.id, "type": "row", "title": r.title, "collapsed": r.collapsed, "gridPos": l.place(24, 1), "panels": []object{}}
	l.end()
	panels := []object{}
	for _, p := range r.panels {
		panels = append(panels, l.panel(p))
	}
	if r.collapsed {
		head["panels"] = panels
		panels = nil
	}
	l.panels = append(append(l.panels, head), panels...)
}

func (l *layout) panel(p panel) object {
	l.id++
	targets := make([]object, len(p.queries))
	for i, q := range p.queries {
		targets[i] = object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend, "range": !p.number, "instant": p.number}
	}
	defaults := object{"unit": p.unit}
	one := object{"id": l.id, "title": p.title, "description": p.about, "datasource": source, "targets": targets}
	if p.number {
		steps := []object{{"color": "green", "value": nil}}
		if p.bad > 0 {
			steps = append(steps, object{"color": "red", "value": p.bad})
		}
		defaults["thresholds"] = object{"mode": "absolute", "steps": steps}
		one["type"], one["gridPos"] = "stat", l.place(4, 4)
		one["options"] = object{"colorMode": "value", "graphMode": "none", "reduceOptions": object{"calcs": []string{"lastNotNull"}}}
	} else {
		defaults["min"] = 0
		stacking := "none"
		if p.stacked {
			stacking = "normal"
		}
		defaults["custom"] = object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "stacking": object{"mode": stacking, "group": "A"}}
		one["type"], one["gridPos"] = "timeseries", l.place(8, 8)
		one["options"] = object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	}
	one["fieldConfig"] = object{"defaults": defaults, "overrides": []object{}}
	return one
}
