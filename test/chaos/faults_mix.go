package chaos

// mix is two kinds at once, each upon nodes of its own.
func mix(s *scene) func() {
	var fit []kind
	for _, k := range s.kinds {
		if !k.alone && k.Name != "mix" {
			fit = append(fit, k)
		}
	}
	if len(fit) < 2 {
		return nil
	}
	var ends []func()
	for range 2 {
		k := fit[s.dice.IntN(len(fit))]
		if end := k.begin(s); end != nil {
			s.t.Logf("  %s", k.Name)
			ends = append(ends, end)
		}
	}
	if ends == nil {
		return nil
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}
