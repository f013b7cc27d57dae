{{- define "ringscope.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ringscope.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "ringscope.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "ringscope.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* What never changes between releases: selectors. */ -}}
{{- define "ringscope.selector" -}}
app.kubernetes.io/name: {{ include "ringscope.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ringscope.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "ringscope.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "ringscope.image" -}}
{{- $missing := "image.repository is not set: say where the nodes get the image from, e.g. --set image.repository=registry.example/ringscope; docs/kubernetes.md shows how it comes there" -}}
{{- $repository := required $missing .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "ringscope.scheme" -}}
{{- ternary "https" "http" .Values.tls.enabled -}}
{{- end -}}

{{- /* Names by which the daemon is called inside the cluster, with spaces between. */ -}}
{{- define "ringscope.names" -}}
{{- $name := include "ringscope.fullname" . -}}
{{- $namespace := .Release.Namespace -}}
{{- printf "%s %s.%s %s.%s.svc %s.%s.svc.cluster.local" $name $name $namespace $name $namespace $name $namespace -}}
{{- end -}}

{{- define "ringscope.url" -}}
{{- printf "%s://%s.%s.svc:%d" (include "ringscope.scheme" .) (include "ringscope.fullname" .) .Release.Namespace (int .Values.service.port) -}}
{{- end -}}

{{- define "ringscope.tokensSecret" -}}
{{- default (printf "%s-tokens" (include "ringscope.fullname" .)) .Values.tokens.existingSecret -}}
{{- end -}}

{{- define "ringscope.tlsSecret" -}}
{{- default (printf "%s-tls" (include "ringscope.fullname" .)) .Values.tls.existingSecret -}}
{{- end -}}

{{- /* Certificate and CA that are made here: those of the secret that is there, else new ones, the same for all of this rendering. */ -}}
{{- define "ringscope.makeTls" -}}
{{- if not (hasKey .Values "madeTls") -}}
{{- $found := lookup "v1" "Secret" .Release.Namespace (include "ringscope.tlsSecret" .) -}}
{{- if and $found $found.data -}}
{{- $_ := set .Values "madeTls" $found.data -}}
{{- else -}}
{{- $names := splitList " " (include "ringscope.names" .) -}}
{{- $ca := genCA (printf "%s CA" (include "ringscope.fullname" .)) (int .Values.tls.days) -}}
{{- $pair := genSignedCert (first $names) nil (concat $names (list "localhost")) (int .Values.tls.days) $ca -}}
{{- $_ := set .Values "madeTls" (dict "tls.crt" (b64enc $pair.Cert) "tls.key" (b64enc $pair.Key) "ca.crt" (b64enc $ca.Cert)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "ringscope.imagePullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}
