package reminders_test

import (
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/reminders"
)

func ExampleRegister() {
	registry := actions.New()
	reminders.Register(registry)
	for _, action := range registry.All() {
		fmt.Println(action.Name, "-", action.Examples[0])
	}
	// Output:
	// remindMe - remind me in {in_minutes} minutes to {what}
	// listReminders - what are my reminders?
	// cancelReminder - cancel the reminder about {reminder}
}
