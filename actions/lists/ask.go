package lists

import (
	"context"
	"strings"

	"github.com/planbot-go/planbot/actions"
)

type findIn struct {
	Item string `json:"item" jsonschema:"what to look for"`
}

func findItem(_ context.Context, turn *actions.Turn, in findIn) (actions.Result, error) {
	in.Item = clean(in.Item)
	if fault := checkName(in.Item); fault != "" {
		return actions.Fail("%s", fault), nil
	}
	var found []string
	wanted := strings.ToLower(in.Item)
	for _, list := range Of(turn).All {
		for _, item := range list.Items {
			if strings.Contains(strings.ToLower(item.Name), wanted) {
				found = append(found, item.String()+" is on the list "+list.Name+".")
			}
		}
	}
	if len(found) == 0 {
		return actions.Text("%s is on none of the lists.", in.Item), nil
	}
	return actions.Text("%s", strings.Join(found, "\n")), nil
}

func summarizeLists(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
	return actions.Text("%s", Of(turn).String()), nil
}
