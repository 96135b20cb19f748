package driver

import "runtime/debug"

// Describe names the client library behind an address, with its version.
func Describe(a Address) string {
	switch a.Client {
	case "", ClientGo:
		return "Go client"
	case ClientGRPC:
		return "Go client over gRPC"
	case ClientFranz:
		return "franz-go " + moduleVersion("github.com/twmb/franz-go")
	case ClientSarama:
		return "Sarama " + moduleVersion("github.com/IBM/sarama")
	case ClientFetch:
		return "bare fetch requests"
	}
	if of, known := languages[a.Client]; known {
		return of.name + " client"
	}
	return registered[a.Client]
}

// moduleVersion is the version of a module in this program.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of an unknown version"
	}
	for _, module := range info.Deps {
		if module.Path == path {
			for module.Replace != nil {
				module = module.Replace
			}
			return module.Version
		}
	}
	return "of an unknown version"
}
