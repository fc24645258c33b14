package cli

import "testing"

// The command in a report can be typed again.
func TestTypedCommand(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "kring"},
		{[]string{"load", "--nodes", "http://127.0.0.1:8001,http://h", "--write", "5%"}, "kring load --nodes http://127.0.0.1:8001,http://h --write 5%"},
		{[]string{"load", "--keys", "my keys", "--group", ""}, "kring load --keys 'my keys' --group ''"},
		{[]string{"load", "it's", "$HOME", "a;b", "é"}, `kring load 'it'\''s' '$HOME' 'a;b' 'é'`},
	} {
		if got := typed(tt.args); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.args, got, tt.want)
		}
	}
}
