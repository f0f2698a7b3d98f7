package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"narad/client"
)

// documentMax bounds what is read as a schema, in bytes; the server has a smaller limit.
const documentMax = 1 << 20

// document returns the JSON document that a flag names: itself, @FILE, or - for the standard input; nil for nothing.
func (a *app) document(from string) (json.RawMessage, error) {
	var text []byte
	var err error
	name, isFile := strings.CutPrefix(from, "@")
	switch {
	case from == "":
		return nil, nil
	case from == "-":
		text, err = io.ReadAll(io.LimitReader(a.stdin, documentMax+1))
	case isFile:
		var f *os.File
		if f, err = os.Open(name); err != nil {
			return nil, err
		}
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, documentMax+1))
	default:
		text = []byte(from)
	}
	switch {
	case err != nil:
		return nil, err
	case len(text) > documentMax:
		return nil, fmt.Errorf("the schema is larger than %d bytes", documentMax)
	case !json.Valid(text):
		return nil, fmt.Errorf("the schema is not JSON")
	}
	return text, nil
}

func (a *app) topicSchemaCommand() *cobra.Command {
	var current, asJSON bool
	cmd := &cobra.Command{
		Use: "schema TOPIC", Short: "Print the schemas of a topic, oldest first, or the current one", Args: args(1, 1, "the name of one topic"),
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			s, err := c.Schemas(cmd.Context(), names[0])
			switch {
			case err != nil:
				return err
			case current && len(s.Versions) == 0:
				return fmt.Errorf("topic %s has no schema", names[0])
			case current:
				return a.printDocument(s.Versions[len(s.Versions)-1].Schema)
			case asJSON:
				return a.printJSON(s)
			}
			return a.printSchemas(s)
		},
	}
	cmd.Flags().BoolVar(&current, "current", false, "print the newest document only")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) printSchemas(s client.Schemas) error {
	if len(s.Versions) == 0 {
		return a.print("topic %s has no schema\n", s.Topic)
	}
	for _, v := range s.Versions {
		if err := a.print("version %d\n", v.Version); err != nil {
			return err
		}
		if err := a.printDocument(v.Schema); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printDocument(doc json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, doc, "", "  "); err != nil {
		return err
	}
	return a.print("%s\n", b.Bytes())
}
