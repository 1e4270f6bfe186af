# SPDX-License-Identifier: Apache-2.0
# zsh: _arguments does the parsing.
function quote(s) {
	gsub(/'/, "'\\''", s)
	gsub(/[\[\]:]/, "\\\\&", s)
	return s
}

function action(k, w) {
	if (k == "sandbox")
		return "_space_names sandboxes"
	if (k == "snapshot")
		return "_space_names snapshots"
	if (k == "image")
		return "_space_names images"
	if (k == "any")
		return "_space_names sandboxes snapshots images"
	if (k == "op")
		return "_space_names ops"
	if (k == "file")
		return "_files"
	if (k == "dir")
		return "_files -/"
	if (k ~ /^(kernel|proc|verb|guestpath)$/)
		return "_space_" k
	if (k == "words") {
		gsub(/\|/, " ", w)
		return "(" w ")"
	}
	return " "
}

function print_names() {
	print "_space_names() {"
	print "\tlocal what\n\tfor what; do"
	print "\t\tcompadd -- ${(f)\"$(space-ls $what 2>/dev/null |"
	print "\t\t\tif [[ $what == ops ]]; then cut -f 1; else cut -f 1,2 | tr '\\t' '\\n'; fi |"
	print "\t\t\tgrep -xE '[a-z0-9][a-z0-9-]*')\"}"
	print "\tdone\n}"
}

function print_helpers() {
	if (uses_names())
		print_names()
	if ("kernel" in uses)
		print "_space_kernel() {\n\tcompadd -- ${(f)\"$(space-kernel ls 2>/dev/null | cut -f 1)\"}\n}"
	if ("proc" in uses)
		print "_space_proc() {\n\tcompadd -- ${(f)\"$(timeout 2 space-ps $line[1] 2>/dev/null |" \
			" cut -f 1)\"}\n}"
	if ("verb" in uses)
		print "_space_verb() {\n\tcompadd -- help ${${(k)commands[(I)space-*]}#space-}\n}"
	if ("guestpath" in uses)
		print "_space_guestpath() {\n\t_files\n\tcompadd -S : -- " \
			"${(f)\"$(space-ls 2>/dev/null | cut -f 1,2 | tr '\\t' '\\n' |\n" \
			"\t\tgrep -xE '[a-z0-9][a-z0-9-]*')\"}\n}"
}

END {
	header("#compdef " tool "\n")
	print_helpers()
	if ("verb" in uses)
		print "\nif ((CURRENT > 2)); then\n\t# The rest is the other program's business.\n" \
			"\tshift words\n\t((CURRENT--))\n\twords[1]=space-$words[1]\n\t_normal\n\treturn\nfi"
	printf "\n_arguments -s -S -A '-*'"
	for (i = 1; i <= n; i++) {
		tail = "[" quote(help[i]) "]"
		if (kind[i] != "none")
			tail = tail ":" quote(value[i]) ":" action(kind[i], "")
		if (letter[i] == "-")
			printf " \\\n\t'*--%s%s'", name[i], tail
		else
			printf " \\\n\t'*'{-%s,--%s}'%s'", letter[i], name[i], tail
	}
	printf " \\\n\t'--help[print help]' \\\n\t'--version[print the version]'"
	for (i = 1; i <= places; i++) {
		at = i == many ? "*" : i
		printf " \\\n\t'%s:%s:%s'", at, quote(tolower(word[i])), action(place[i], word[i])
	}
	print ""
}
