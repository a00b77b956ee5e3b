package connector

import "net/netip"

// Service is where people have accounts and sign in, besides the OAuth connections of the Azure Bot: see package
// oauth.
type Service struct {
	// Resource is the address of the service: tokens are for it alone. Required.
	Resource string
	// Issuer is its authorization server. "": the one that the service names.
	Issuer string
	// Hosts are other hosts than those of Issuer and Resource at which the authorization server may have
	// endpoints, such as oauth2.example.com: with the port, unless that is 443.
	Hosts []string
	// ClientID and Secret are those of the bot at the authorization server. "": the bot is known there
	// by the address of its metadata, or registers itself (RFC 7591). Secret needs an Issuer: otherwise
	// the service would say who gets it.
	ClientID, Secret string
	// Scopes are what the bot asks for. nil: what the service says it needs.
	Scopes []string
	// Private are networks with private addresses in which its authorization server may be. Calls of all
	// Services may go there.
	Private []netip.Prefix
}
