package app

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/manifest"
)

type manifestCmd struct {
	Build    manifestBuildCmd    `cmd:"" help:"Write the app package that is uploaded to Teams."`
	Validate manifestValidateCmd `cmd:"" help:"Check a manifest.json, its folder or an app package."`
}

type manifestBuildCmd struct {
	AppID      string `name:"app-id" required:"" help:"Microsoft app id of the bot"`
	Domain     string `required:"" help:"host[:port] where the bot is reached, without https://"`
	Out        string `type:"path" default:"app.zip" help:"file to write (app.zip)"`
	AppVersion string `name:"app-version" help:"version of the app, raised with every change (1.0.0)"`
	Name       string `help:"short name of the app (the name of the bot)"`
	Developer  string `help:"who publishes the app (the name)"`
	WebsiteURL string `name:"website-url" help:"https address of the app's website (https://DOMAIN)"`
	PrivacyURL string `name:"privacy-url" help:"https address of the privacy statement (https://DOMAIN/privacy)"`
	TermsURL   string `name:"terms-url" help:"https address of the terms of use (https://DOMAIN/terms)"`
}

// Run writes the package, or nothing if something is wrong with it.
func (c manifestBuildCmd) Run(s *settings.Settings, std *cli.Streams) error {
	var starters []manifest.Command
	for _, a := range s.Actions().All() {
		starters = append(starters, manifest.Starter(a.Name, a.Description))
	}
	var zip bytes.Buffer
	err := manifest.Build(&zip, manifest.Config{
		AppID: c.AppID, Domain: c.Domain, Version: c.AppVersion, Name: cmp.Or(c.Name, s.Bot.Name), Developer: c.Developer,
		WebsiteURL: c.WebsiteURL, PrivacyURL: c.PrivacyURL, TermsURL: c.TermsURL, Prompts: starters,
		Commands: []manifest.Command{
			{Title: "help", Description: "Shows what I can do"},
			{Title: "/reset", Description: "Forgets our conversation"},
			{Title: "/forget", Description: "Deletes everything I keep about you"},
		},
	})
	if err != nil {
		return cli.Usage(err)
	}
	if err := os.WriteFile(c.Out, zip.Bytes(), 0o644); err != nil { //nolint:gosec // the package holds no secret
		return fmt.Errorf("write the app package: %w", err)
	}
	fmt.Fprintf(std.Out, "Wrote %s (%d bytes). Upload it in Teams: Apps > Manage your apps > Upload an app.\n", c.Out, zip.Len())
	return nil
}

type manifestValidateCmd struct {
	File string `arg:"" type:"path" help:"manifest.json, folder or app package"`
}

// Run prints every problem and fails if there is one.
func (c manifestValidateCmd) Run(std *cli.Streams) error {
	problems, err := manifest.Validate(c.File)
	if err != nil {
		return cli.Usage(err)
	}
	for _, p := range problems {
		fmt.Fprintln(std.Out, p)
	}
	if len(problems) > 0 {
		return cli.SilentError{Code: cli.ExitFailed}
	}
	fmt.Fprintln(std.Out, cmp.Or(filepath.Base(c.File), c.File)+" is fine")
	return nil
}
