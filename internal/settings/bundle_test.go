package settings

import (
	"github.com/planbot-go/planbot/actions/lists"
)

// env are settings by their flags.
type env map[string]string

// read parses and checks them. With an app id, BOT_MODEL and BOT_STATE say that there is no model and
// no Redis, unless the test says something else.
func (e env) read() (*Settings, error) {
	var args []string
	if _, given := e["bot-model"]; !given && e["microsoft-app-id"] != "" && e["openai-api-key"]+e["openai-base-url"]+e["azure-openai-endpoint"] == "" {
		args = append(args, "--bot-model=offline")
	}
	if _, given := e["bot-state"]; !given && e["microsoft-app-id"] != "" && e["redis-url"]+e["bot-data-dir"] == "" {
		args = append(args, "--bot-state=embedded")
	}
	for flag, value := range e {
		args = append(args, "--"+flag+"="+value)
	}
	return Read(Bot{Name: "ListBot", Register: lists.Register}, args...)
}
