# SPDX-License-Identifier: Apache-2.0
# bash: one function a tool. Ids and names are letters, digits and hyphens, so -W expands nothing.
function words_of(k, w) {
	if (k == "sandbox")
		return "$(_space_names sandboxes)"
	if (k == "snapshot")
		return "$(_space_names snapshots)"
	if (k == "image")
		return "$(_space_names images)"
	if (k == "any")
		return "$(_space_names sandboxes snapshots images)"
	if (k == "op")
		return "$(_space_names ops)"
	if (k == "kernel")
		return "$(space-kernel ls 2>/dev/null | cut -f 1)"
	if (k == "proc")
		return "$(timeout 2 space-ps \"$first\" 2>/dev/null | cut -f 1)"
	if (k == "verb")
		return "help $(compgen -c space- | cut -c 7- | sort -u)"
	if (k == "words") {
		gsub(/\|/, " ", w)
		return w
	}
	return ""
}

# The commands that offer a kind, indented by t; "" where there is nothing to offer.
function offer(k, w, t, list) {
	if (k == "file" || k == "dir")
		return t "mapfile -t COMPREPLY < <(compgen -" substr(k, 1, 1) " -- \"$cur\")\n" \
			t "compopt -o filenames\n"
	if (k == "guestpath")
		return t "mapfile -t COMPREPLY < <(\n" t "\tcompgen -f -- \"$cur\"\n" \
			t "\tcompgen -S : -W \"$(_space_names sandboxes)\" -- \"$cur\"\n" t ")\n" \
			t "[[ ${COMPREPLY[*]} != *: ]] || compopt -o nospace\n"
	list = words_of(k, w)
	if (list == "")
		return ""
	return t "mapfile -t COMPREPLY < <(compgen -W \"" list "\" -- \"$cur\")\n"
}

function print_names() {
	print "_space_names()\n{\n\tlocal what\n\tfor what; do"
	print "\t\tspace-ls \"$what\" 2>/dev/null |"
	print "\t\t\tif [[ $what == ops ]]; then cut -f 1; else cut -f 1,2 | tr '\\t' '\\n'; fi"
	print "\tdone | grep -xE '[a-z0-9][a-z0-9-]*'\n}\n"
}

# After an option that takes a value: offer one, or nothing.
function print_values(i, s, rest) {
	print "\tcase ${COMP_WORDS[COMP_CWORD - 1]} in"
	for (i = 1; i <= n; i++) {
		if (kind[i] == "none")
			continue
		s = offer(kind[i], "", "\t\t")
		if (s == "")
			rest = rest (rest == "" ? "" : " | ") spelled(i, " | ")
		else
			printf "\t%s)\n%s\t\treturn\n\t\t;;\n", spelled(i, " | "), s
	}
	if (rest != "")
		print "\t" rest ") return ;;"
	print "\tesac"
}

# Counts the operands before the cursor: the first ends the options, what follows is its own.
function print_count() {
	print "\tfor ((i = 1; i < COMP_CWORD; i++)); do"
	print "\t\tcase ${COMP_WORDS[i]} in"
	if (taking != "")
		print "\t\t" taking ") if ((k)); then ((k++)); else ((i++)); fi ;;"
	print "\t\t-?*) ((k)) && ((k++)) ;;"
	print "\t\t*) " ("proc" in uses || "verb" in uses ? "((k++)) || first=${COMP_WORDS[i]}" : "((k++))") " ;;"
	print "\t\tesac\n\tdone"
}

function print_verbs() {
	print "\tif ((k > 0)); then"
	print "\t\t# The rest is the other program's business."
	print "\t\tfor ((i = 1; i < COMP_CWORD; i++)); do"
	print "\t\t\t[[ ${COMP_WORDS[i]} == -* ]] || break"
	print "\t\tdone"
	print "\t\tCOMP_WORDS=(\"space-$first\" \"${COMP_WORDS[@]:i + 1}\")"
	print "\t\t((COMP_CWORD -= i))"
	print "\t\ti=_space_${first//-/_}"
	print "\t\tif ! declare -F \"$i\" && declare -F _completion_loader; then"
	print "\t\t\t_completion_loader \"space-$first\""
	print "\t\tfi >/dev/null"
	print "\t\tif declare -F \"$i\" >/dev/null; then \"$i\"; fi"
	print "\t\treturn\n\tfi"
}

function print_places(i, s, body) {
	for (i = 1; i <= places; i++) {
		s = offer(place[i], word[i], "\t\t")
		if (i == many)
			body = body (s == "" ? "" : "\t*)\n" s "\t\t;;\n")
		else if (s != "" || many)
			body = body "\t" (i - 1) ")" (s == "" ? " ;;\n" : "\n" s "\t\t;;\n")
	}
	if (body != "")
		printf "\tcase $k in\n%s\tesac\n", body
}

END {
	for (i = 1; i <= n; i++) {
		options = options "--" name[i] " " (letter[i] == "-" ? "" : "-" letter[i] " ")
		if (kind[i] != "none")
			taking = taking (taking == "" ? "" : " | ") spelled(i, " | ")
	}
	header("", "\n# shellcheck shell=bash")
	if (uses_names())
		print_names()
	print "_" fn "()\n{"
	print "\tlocal cur=${COMP_WORDS[COMP_CWORD]} i k=0" \
		("proc" in uses || "verb" in uses ? " first=" : "")
	print "\tCOMPREPLY=()"
	if (taking != "")
		print_values()
	print_count()
	print "\tif [[ $cur == -* ]] && ((k == 0)); then"
	print "\t\tmapfile -t COMPREPLY < <(compgen -W '" options "--help --version' -- \"$cur\")"
	print "\t\treturn\n\tfi"
	if ("verb" in uses)
		print_verbs()
	print_places()
	print "}\ncomplete -F _" fn " " tool
}
