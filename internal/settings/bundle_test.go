package settings

import (
	"github.com/planbot-go/planbot/actions/lists"
)

// env are settings by their flags.
type env map[string]string

// read parses and checks them.
func (e env) read() (*Settings, error) {
	var args []string
	for flag, value := range e {
		args = append(args, "--"+flag+"="+value)
	}
	return Read(Bot{Register: lists.Register}, args...)
}
