package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"kring/client"
)

func newGet() *cobra.Command {
	var r remote
	var cached, asJSON bool
	cmd := &cobra.Command{
		Use:   "get GROUP KEY…",
		Short: "Print the values of keys",
		Long: `Writes a key's value to stdout, byte for byte, and nothing else. The values of
several keys follow one another in the order of the keys. --json writes a document
with each key's status, headers and value instead, as a batch over HTTP does.

` + keyHelp + `

Exit code 1 if a key has no value; the other values are still printed.`,
		Example: `  kring get kv greeting
  kring get docs a/b.txt >b.txt
  kring get docs user:1 user:2 --json | jq -r '.entries[] | [.key, .status] | @tsv'
  kring get kv --node http://127.0.0.1:8002 -- -dash`,
		Args: withGroup(1, anyNumber),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			defer c.Close()
			o := client.GetOptions{OnlyIfCached: cached}
			out := cmd.OutOrStdout()
			entries := []entryJSON{}
			err = r.eachKey(args[0], args[1:], func(key string) error {
				v, err := c.GetWith(cmd.Context(), args[0], key, o)
				if asJSON {
					entries = append(entries, entryOf(key, v, err))
					return err
				}
				if err != nil {
					return err
				}
				o.Buffer = v.Body
				if _, err := out.Write(v.Body); err != nil {
					return fmt.Errorf("write the value: %w", err)
				}
				return nil
			})
			if asJSON && len(entries) == len(args)-1 {
				err = cmp.Or(failed(printJSON(out, map[string]any{"entries": entries})), err)
			}
			return err
		},
	}
	r.valueFlags(cmd)
	cmd.Flags().BoolVar(&cached, "only-if-cached", false, "get only a value that the cluster holds, without a load")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// entryJSON is a key's part of the output of get --json.
type entryJSON struct {
	Key         string  `json:"key"`
	Status      int     `json:"status"`
	ContentType string  `json:"content_type,omitempty"`
	Encoding    string  `json:"content_encoding,omitempty"`
	ETag        string  `json:"etag,omitempty"`
	Age         int64   `json:"age"`
	CacheStatus string  `json:"cache_status,omitempty"`
	Value       *string `json:"value,omitempty"`
	ValueBase64 []byte  `json:"value_base64,omitempty"` // if the value is not UTF-8
	Code        string  `json:"code,omitempty"`
	Error       string  `json:"error,omitempty"`
}

func entryOf(key string, v *client.Value, err error) entryJSON {
	if err != nil {
		e := entryJSON{Key: key, Error: err.Error()}
		if answer, ok := errors.AsType[*client.Error](err); ok {
			e.Status, e.Code, e.CacheStatus = answer.Status, string(answer.Code), answer.CacheStatus
		}
		return e
	}
	e := entryJSON{
		Key: key, Status: http.StatusOK, ContentType: v.ContentType, Encoding: v.ContentEncoding, ETag: v.ETag,
		Age: int64(v.Age.Seconds()), CacheStatus: v.CacheStatus,
	}
	if utf8.Valid(v.Body) {
		text := string(v.Body)
		e.Value = &text
	} else {
		e.ValueBase64 = v.Body
	}
	return e
}
