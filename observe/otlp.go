package observe

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// This file alone knows the exporter, which is by far the largest dependency: it brings the protocol buffers of OTLP along.

// newTracer starts a tracer when the environment asks for one: OTEL_TRACES_EXPORTER=otlp, or an endpoint for OTLP without
// that. Where to, how often and how many are all set by the standard OTEL_* variables, which the exporter and the
// sampler read themselves. It returns nil when traces are off.
func newTracer(c Config) (*tracer, error) {
	on, err := tracesWanted(os.Getenv)
	if err != nil || !on {
		return nil, err
	}
	exporter, err := otlptracehttp.New(context.Background())
	if err != nil {
		return nil, fmt.Errorf("observe: the exporter of traces: %w", err)
	}
	attributes := []attribute.KeyValue{attribute.String("service.version", c.Version), attribute.String("service.instance.id", c.Node)}
	if os.Getenv("OTEL_SERVICE_NAME") == "" {
		attributes = append(attributes, attribute.String("service.name", "narad"))
	}
	about, err := resource.Merge(resource.Default(), resource.NewSchemaless(attributes...))
	if err != nil {
		return nil, fmt.Errorf("observe: the resource of traces: %w", err)
	}
	return startTracer(sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))), nil
}

// tracesWanted reads the variables that turn traces on.
func tracesWanted(env func(string) string) (bool, error) {
	endpoint := env("OTEL_EXPORTER_OTLP_ENDPOINT") + env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	exporter := env("OTEL_TRACES_EXPORTER")
	switch {
	case strings.EqualFold(env("OTEL_SDK_DISABLED"), "true"), exporter == "none", exporter == "" && endpoint == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q, allowed are otlp and none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := env(name); protocol != "" && protocol != "http/protobuf" {
			return false, fmt.Errorf("%s is %q, allowed is http/protobuf", name, protocol)
		}
	}
	return true, nil
}
