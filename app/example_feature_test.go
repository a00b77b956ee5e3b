package app_test

import (
	"errors"
	"fmt"

	"github.com/planbot-go/planbot/app"
)

// A feature of one's own has settings, which are read and checked with all others. The main function of the
// program is app.Main(bot, coffee()).
func ExampleSettings() {
	var coffee struct {
		Cups int `env:"COFFEE_CUPS" default:"3" help:"cups a day"`
	}
	feature := app.Feature{Name: "coffee", Settings: &coffee, Check: func(app.Values) error {
		if coffee.Cups > 5 {
			return errors.New("COFFEE_CUPS: is more than a heart takes")
		}
		return nil
	}}
	fmt.Println(app.Settings(app.Bot{Name: "Barista"}, feature).Read("--coffee-cups=9"))
	// Output:
	// COFFEE_CUPS: is more than a heart takes
}
