package report

import (
	"html/template"
	"io"
	"time"
)

// colours is how many series the page can tell apart.
const colours = 6

// WriteHTML writes one page with all reports: it loads nothing from anywhere.
func WriteHTML(w io.Writer, reports ...*Report) error { return page.Execute(w, reports) }

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"svg":    func(p Plot) template.HTML { return template.HTML(p.svg()) }, // every text in it is escaped there
	"colour": func(i int) int { return i % colours },
	"lines":  func(m Machine) []string { return m.lines() },
	"when":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
	"took":   func(s float64) string { return Duration(time.Duration(s * 1e9)) },
}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Narad benchmarks</title>
<style>
:root { color-scheme: light dark; --bg:#fcfcfb; --fg:#1d1d1b; --dim:#63635e; --line:#e3e3de;
  --c0:#1f5fbf; --c1:#b4450f; --c2:#2b7a3d; --c3:#8438a8; --c4:#8a6a00; --c5:#00798a }
@media (prefers-color-scheme: dark) { :root { --bg:#171716; --fg:#ecece7; --dim:#a3a39b; --line:#383834;
  --c0:#7fb0ff; --c1:#ff9d6b; --c2:#7dd391; --c3:#d49bf0; --c4:#e6c34d; --c5:#5fd0de } }
body { margin:0 auto; padding:2rem 1.25rem 4rem; max-width:76rem; background:var(--bg); color:var(--fg); font:16px/1.5 system-ui,sans-serif }
h1 { font-size:1.7rem; margin:0 0 1rem } h2 { margin:3rem 0 .3rem; font-size:1.35rem } h3 { margin:2rem 0 .6rem; font-size:1.05rem }
nav a { margin-right:1rem } a { color:var(--c0) } code { font-size:.9em } .dim { color:var(--dim); font-size:.9rem; margin:.15rem 0; max-width:60rem }
.scroll { overflow-x:auto } table { border-collapse:collapse; font-variant-numeric:tabular-nums; font-size:.9rem }
th,td { padding:.3rem .7rem; border-bottom:1px solid var(--line); text-align:right; white-space:nowrap }
th:first-child,td:first-child { text-align:left; padding-left:0 } th { color:var(--dim); font-weight:600; white-space:normal; vertical-align:bottom; line-height:1.25 }
.plots { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr)); gap:1.5rem; margin-top:1rem }
figure { margin:0; max-width:38rem } figcaption { font-weight:600; font-size:.92rem } svg { width:100%; height:auto; display:block }
svg text { fill:var(--dim); font:11px system-ui,sans-serif } svg .label { font-size:12px }
.grid { stroke:var(--line) } .axis,.tick { stroke:var(--dim) } svg polyline { fill:none; stroke-width:2 }
.legend { display:flex; flex-wrap:wrap; gap:.1rem 1rem; font-size:.85rem; margin:.2rem 0 0; padding:0; list-style:none }
.legend i { display:inline-block; width:.8rem; height:.2rem; margin-right:.4rem; vertical-align:middle }
.s0 { stroke:var(--c0); fill:var(--c0) } .s1 { stroke:var(--c1); fill:var(--c1) } .s2 { stroke:var(--c2); fill:var(--c2) }
.s3 { stroke:var(--c3); fill:var(--c3) } .s4 { stroke:var(--c4); fill:var(--c4) } .s5 { stroke:var(--c5); fill:var(--c5) }
.k0 { background:var(--c0) } .k1 { background:var(--c1) } .k2 { background:var(--c2) } .k3 { background:var(--c3) } .k4 { background:var(--c4) } .k5 { background:var(--c5) }
</style>
<h1>Narad benchmarks</h1>
<nav>{{range .}}<a href="#{{.Name}}">{{.Name}}</a>{{end}}</nav>
{{range .}}<h2 id="{{.Name}}">{{.Name}}</h2>
<p class="dim"><code>{{.Command}}</code>, {{when .Started}}, took {{took .Seconds}}</p>
{{range lines .Machine}}<p class="dim">{{.}}</p>
{{end}}{{range .Sections}}<h3>{{.Title}}</h3>
{{if .Table.Columns}}<div class="scroll"><table><thead><tr>{{range .Table.Columns}}<th scope="col">{{.}}</th>{{end}}</tr></thead>
<tbody>{{range .Table.Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</tbody></table></div>{{end}}
{{range .Notes}}<p class="dim">{{.}}</p>
{{end}}{{if .Plots}}<div class="plots">{{range .Plots}}<figure><figcaption>{{.Title}}</figcaption>
<ul class="legend">{{range $i, $s := .Series}}<li><i class="k{{colour $i}}"></i>{{$s.Name}}</li>{{end}}</ul>{{svg .}}</figure>
{{end}}</div>{{end}}
{{end}}{{end}}</html>
`))
