package botfile

import (
	"reflect"

	"github.com/planbot-go/planbot/app"
)

type fileSettings struct {
	File string `env:"BOT_FILE" common:"true" name:"file" else:"none" help:"bot.yaml, a bot that a file describes instead of a program; its flag is --file"`
}

// Feature makes the bot of a program the one that BOT_FILE describes, if it is set.
func Feature() app.Feature {
	s := &fileSettings{}
	return app.Feature{Name: "botfile", Settings: s, Describe: s.describe}
}

// describe reads the file. What it does not say is as in the zero value of the bot, but for what [File.Apply]
// keeps.
func (s *fileSettings) describe(p *app.Program, b *app.Bot) error {
	if s.File == "" {
		return nil
	}
	f, err := Read(s.File, p.Settings())
	if err != nil {
		return err
	}
	if err := f.Apply(p.Settings()); err != nil {
		return err
	}
	for field, value := range reflect.ValueOf(p.Settings().Bot).Fields() {
		reflect.ValueOf(b).Elem().FieldByName(field.Name).Set(value)
	}
	b.Welcome = f.Welcome()
	b.Manifest = f.Manifest()
	b.Services = f.Services()
	return nil
}
