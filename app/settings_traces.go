package app

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/net/http/httpguts"

	"github.com/planbot-go/planbot/internal/otlp"
)

// traceSettings are OpenTelemetry's, as its specification describes the variables.
// There, what is wrong is passed over with a warning; here it stops the start.
type traceSettings struct {
	on       bool
	exporter otlp.Config
	sampler  sdktrace.Sampler
	resource []attribute.KeyValue
}

const defaultCollector = "http://localhost:4318"

func (c *config) checkTraces(f *faults) {
	if truth(f, "OTEL_SDK_DISABLED", c.OTelDisabled) {
		return
	}
	switch exporter := strings.ToLower(c.OTelExporter); exporter {
	case "none":
		return
	case "":
		c.traces.on = c.OTelEndpoint != "" || c.OTelTraces != ""
	case "otlp":
		c.traces.on = true
	default:
		f.add("OTEL_TRACES_EXPORTER", "%q is neither otlp nor none", c.OTelExporter)
	}
	c.checkCollector(f)
	c.checkSampler(f)
	c.traces.resource = c.resource(f)
	checkSDK(f)
}

// both are the names of a variable that may be set for traces alone.
func both(name string) string {
	return "OTEL_EXPORTER_OTLP_" + name + ", OTEL_EXPORTER_OTLP_TRACES_" + name
}

// checkCollector reads where spans are sent, and how.
func (c *config) checkCollector(f *faults) {
	c.checkURL(f, "OTEL_EXPORTER_OTLP_ENDPOINT", c.OTelEndpoint, "http")
	c.checkURL(f, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.OTelTraces, "http")
	to := &c.traces.exporter
	to.URL = cmp.Or(c.OTelTraces, strings.TrimRight(cmp.Or(c.OTelEndpoint, defaultCollector), "/")+"/v1/traces")
	if p := strings.ToLower(c.OTelProtocol); p != "" && p != "http/protobuf" {
		f.add(both("PROTOCOL"), "%q is not http/protobuf, the one that this bot speaks; its port is 4318", c.OTelProtocol)
	}
	to.Headers = map[string]string{}
	for _, header := range pairs(f, both("HEADERS"), c.OTelHeaders, true) {
		if !httpguts.ValidHeaderFieldName(header[0]) || !httpguts.ValidHeaderFieldValue(header[1]) {
			f.add(both("HEADERS"), "cannot be the headers of a request")
			break
		}
		to.Headers[header[0]] = header[1]
	}
	if c.OTelTimeout != "" {
		ms, err := strconv.ParseUint(c.OTelTimeout, 10, 31)
		if err != nil || ms == 0 {
			f.add(both("TIMEOUT"), "%q is no number of milliseconds from 1 on", c.OTelTimeout)
		}
		to.Timeout = time.Duration(ms) * time.Millisecond
	}
	switch strings.ToLower(c.OTelCompression) {
	case "", "none":
	case "gzip":
		to.Gzip = true
	default:
		f.add(both("COMPRESSION"), "%q is neither gzip nor none", c.OTelCompression)
	}
	if c.OTelCertificate != "" {
		to.TLS = signedBy(f, both("CERTIFICATE"), c.OTelCertificate)
	}
}

// signedBy trusts the certificates in the file, and no others.
func signedBy(f *faults, variable, file string) *tls.Config {
	pem, err := os.ReadFile(file)
	roots := x509.NewCertPool()
	switch {
	case err != nil:
		f.add(variable, "%q cannot be read", file)
	case !roots.AppendCertsFromPEM(pem):
		f.add(variable, "%q holds no certificate in PEM", file)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// checkSampler reads which turns are traced. A turn never has a parent of others,
// so those that look at one do as they do without.
func (c *config) checkSampler(f *faults) {
	share := 1.0
	name, based := strings.CutPrefix(cmp.Or(strings.ToLower(c.OTelSampler), "parentbased_always_on"), "parentbased_")
	if c.OTelSamplerArg != "" {
		var err error
		if share, err = strconv.ParseFloat(c.OTelSamplerArg, 64); err != nil || !(share >= 0 && share <= 1) {
			f.add("OTEL_TRACES_SAMPLER_ARG", "%q is no share from 0 to 1", c.OTelSamplerArg)
		} else if name != "traceidratio" {
			f.add("OTEL_TRACES_SAMPLER_ARG", "is for the samplers traceidratio and parentbased_traceidratio")
		}
	}
	sampler, known := map[string]sdktrace.Sampler{
		"always_on": sdktrace.AlwaysSample(), "always_off": sdktrace.NeverSample(), "traceidratio": sdktrace.TraceIDRatioBased(share),
	}[name]
	if !known {
		f.add("OTEL_TRACES_SAMPLER", "%q is none of always_on, always_off, traceidratio, each also with parentbased_ before it", c.OTelSampler)
	}
	if based && known {
		sampler = sdktrace.ParentBased(sampler)
	}
	c.traces.sampler = sampler
}

// resource says what every span is from. Of two with one name the later counts.
func (c *config) resource(f *faults) []attribute.KeyValue {
	all := []attribute.KeyValue{attribute.String("service.name", "planbot"), attribute.String("service.version", versionText())}
	for _, pair := range pairs(f, "OTEL_RESOURCE_ATTRIBUTES", c.OTelAttributes, false) {
		all = append(all, attribute.String(pair[0], pair[1]))
	}
	if c.OTelServiceName != "" {
		all = append(all, attribute.String("service.name", c.OTelServiceName))
	}
	return all
}

// pairs reads name=value,name=value, with percent signs for what cannot stand there.
// Faults do not show secrets.
func pairs(f *faults, variable, value string, secret bool) [][2]string {
	var all [][2]string
	for i, entry := range list(value) {
		name, text, found := strings.Cut(entry, "=")
		text, err := url.PathUnescape(strings.TrimSpace(text))
		if name = strings.TrimSpace(name); name != "" && found && err == nil {
			all = append(all, [2]string{name, text})
			continue
		}
		if secret {
			f.add(variable, "entry %d is not name=value", i+1)
		} else {
			f.add(variable, "%q is not name=value", entry)
		}
	}
	return all
}

// checkSDK looks at the numbers that the SDK reads by itself.
func checkSDK(f *faults) {
	for _, name := range []string{
		"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
		"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT",
		"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
	} {
		value := os.Getenv(name)
		n, err := strconv.ParseInt(value, 10, 32)
		if value != "" && (err != nil || n < 0 || n == 0 && strings.HasPrefix(name, "OTEL_BSP_")) {
			f.add(name, "%q is no whole number that it could be", value)
		}
	}
}
