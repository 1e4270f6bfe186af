# SPDX-License-Identifier: Apache-2.0
# fish: one line an option; a function counts the operands before the cursor.
function quote(s) {
	gsub(/\\/, "\\\\", s)
	gsub(/'/, "\\'", s)
	return s
}

function offer(k, w) {
	if (k == "sandbox")
		return "(__space_names sandboxes)"
	if (k == "snapshot")
		return "(__space_names snapshots)"
	if (k == "image")
		return "(__space_names images)"
	if (k == "any")
		return "(__space_names sandboxes snapshots images)"
	if (k == "op")
		return "(__space_names ops)"
	if (k == "kernel")
		return "(space-kernel ls 2>/dev/null | cut -f 1)"
	if (k == "proc")
		return "(timeout 2 space-ps (__" fn "_operands)[1] 2>/dev/null | cut -f 1)"
	if (k == "verb")
		return "help (complete -C space- | string replace -rf '^space-(\\S+).*' '$1')"
	if (k == "guestpath")
		return "(__space_names sandboxes | string replace -r '$' :)"
	if (k == "words") {
		gsub(/\|/, " ", w)
		return w
	}
	return ""
}

function print_names() {
	print "function __space_names"
	print "\tfor what in $argv"
	print "\t\tset -l columns 1,2"
	print "\t\ttest $what = ops; and set columns 1"
	print "\t\tspace-ls $what 2>/dev/null | cut -f $columns | string split \\t |"
	print "\t\t\tstring match -r '^[a-z0-9][a-z0-9-]*$'"
	print "\tend\nend\n"
}

function print_count(i, taking) {
	for (i = 1; i <= n; i++) {
		if (kind[i] != "none")
			taking = taking " " spelled(i, " ")
	}
	print "# The operands before the cursor: options, and the values they take, are passed over."
	print "function __" fn "_operands"
	print "\tset -l words (commandline -opc)[2..]"
	print "\twhile set -q words[1]\n\t\tswitch $words[1]"
	if (taking != "")
		print "\t\t\tcase" taking "\n\t\t\t\tset -e words[1]"
	print "\t\t\tcase '-?*'\n\t\t\tcase '*'\n\t\t\t\tbreak"
	print "\t\tend\n\t\tset -e words[1]\n\tend"
	print "\tfor w in $words\n\t\tprintf '%s\\n' $w\n\tend\nend\n"
}

function print_option(i, s, list) {
	s = "complete -c " tool (letter[i] == "-" ? "" : " -s " letter[i]) " -l " name[i]
	list = offer(kind[i], "")
	if (kind[i] == "file" || kind[i] == "dir")
		s = s " -r -F"
	else if (kind[i] != "none")
		s = s " -x" (list == "" ? "" : " -a '" quote(list) "'")
	print s " -d '" quote(help[i]) "'"
}

function print_place(i, test, list) {
	test = "test (count (__" fn "_operands)) " (i == many ? "-ge " : "-eq ") (i - 1)
	list = offer(place[i], word[i])
	if (place[i] == "file" || place[i] == "dir" || place[i] == "guestpath")
		print "complete -c " tool " -n '" test "' -F"
	if (list != "")
		print "complete -c " tool " -n '" test "' -a '" quote(list) "'"
}

END {
	header("")
	if (uses_names())
		print_names()
	if (places)
		print_count()
	print "complete -c " tool " -f"
	for (i = 1; i <= n; i++)
		print_option(i)
	print "complete -c " tool " -l help -d 'print help'"
	print "complete -c " tool " -l version -d 'print the version'"
	for (i = 1; i <= places; i++)
		print_place(i)
	if ("verb" in uses)
		print "complete -c " tool " -n 'test (count (__" fn "_operands)) -ge 1' -a " \
			"'(complete -C \"space-\"(string join \" \" -- (__" fn "_operands) " \
			"(commandline -ct)))'"
}
