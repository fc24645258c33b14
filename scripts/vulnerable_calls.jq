# Lists the calls of vulnerable functions that govulncheck -format json found,
# one per line: "overdue: …" if the advisory is two weeks old and names a
# version without the fault, else "warning: …".
def published: sub("\\.[0-9]+Z$"; "Z") | fromdateiso8601;

(map(select(.osv) | {key: .osv.id, value: (.osv.published | published)}) | from_entries) as $since
| [.[].finding | select(.trace[0].function)] | unique_by([.osv, .trace[0].module])[]
| (.trace[0].module == "stdlib") as $standard
| (if $standard or (.fixed_version // "") == "" or now - $since[.osv] < 14 * 86400 then "warning" else "overdue" end)
	+ ": \(if $standard then "the standard library" else .trace[0].module end): \(.osv) called, fixed in \(.fixed_version // "no version")"
