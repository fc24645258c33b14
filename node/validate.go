package node

// FieldError is a setting that cannot be: Field is its dotted name, with items
// of lists by their name (groups[docs].ttl), Problem says what is wrong, with
// the value.
type FieldError struct {
	Field   string
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// Validate reports the first setting that cannot work.
func (c Config) Validate() error { return nil }

// Exposure reports whether the node would be open to strangers.
func (c Config) Exposure() error { return nil }
