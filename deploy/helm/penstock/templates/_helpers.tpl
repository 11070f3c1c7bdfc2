{{- /* The chart uses only what Go's templates have built in, so that the tests can render it
without Helm: `printf "%q"` writes a string as YAML, `template` includes a definition. */ -}}
{{- define "penstock.selector" -}}
{app.kubernetes.io/name: penstock, app.kubernetes.io/instance: {{ printf "%q" .Release.Name }}}
{{- end -}}
{{- define "penstock.labels" -}}
{app.kubernetes.io/name: penstock, app.kubernetes.io/instance: {{ printf "%q" .Release.Name }}, app.kubernetes.io/version: {{ printf "%q" .Chart.AppVersion }}, app.kubernetes.io/managed-by: {{ printf "%q" .Release.Service }}, helm.sh/chart: {{ printf "%q" (printf "%s-%s" .Chart.Name .Chart.Version) }}}
{{- end -}}
