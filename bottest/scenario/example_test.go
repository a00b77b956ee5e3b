package scenario_test

import (
	"fmt"

	"github.com/planbot-go/planbot/app/record"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bottest/scenario"
)

func ExampleRun() {
	const file = `
name: adds milk
steps:
  - event: {type: message, conversation: c1, from: mia, text: add milk}
    model: ['{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk"}},{"type":"SAY","response":"Added milk."}]}']
    expect:
      actions: [{action: addItem, entities: {list: groceries, item: milk}}]
      replies: [Added milk.]
      state: {lists: {groceries: [milk]}}
`
	all, err := record.Read("milk.yaml", []byte(file))
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := actions.New()
	lists.Register(registry)
	result := scenario.Run(&all[0], scenario.Config{Actions: registry})
	fmt.Println(result.Name, result.Passed, result.Failures)
	// Output: adds milk true []
}
