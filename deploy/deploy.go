// Package deploy has the files that operators deploy, from which bot new makes those of a bot.
package deploy

import "embed"

// Kubernetes has the recipe and an example of its Secret.
//
//go:embed kubernetes/planbot.yaml kubernetes/secret.example.yaml
var Kubernetes embed.FS
