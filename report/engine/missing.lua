-- Decides what of the chapters is printed, for both engines (filters in _quarto.yml, at: pre-ast).
--
-- 1. Chapters: ROOFWRIGHT_CHAPTERS, else `roofwright: chapters:` in _quarto.yml. One begins at `# TITLE {#sec-NAME}`.
-- 2. Conditions: `::: {.content-visible when-meta="training.step"}`, `unless-meta=`, by the metadata that cells set; of
--    words in a caption or a table: `[95 % intervals.]{.content-visible when-meta="training.step"}`.
-- 3. Reference blocks: `::: {.reference claims="fastest pooling"}` is printed if all claims hold. The claim `fastest`
--    of the chapter `training` is the metadata `training.claims.fastest`; elsewhere the claim is `training.fastest`.
-- 4. Missing values: a paragraph or list item with a span of class `missing` is not printed, nor is a figure or table
--    that holds a div of class `gap`. What refers to something that is not printed goes too, then headings with nothing
--    below them. The `command`s of all these are listed in the div `#gaps`, which stands after the chapters, each
--    with the sections that lack something and, in the project's own paper, the `machine`. The first of them stand in
--    a div of class `first-gaps` as well, where those that need a GPU or a file come last.
-- 5. `::: {.more}` is printed in the HTML alone, folded; with `roofwright: pdf: full` in both.
-- 6. Figures and tables of `.more`, and what else only the page shows, are counted apart: Figure S1, Table S1. Headings
--    there have no number. So both formats have one numbering.

local stringify = pandoc.utils.stringify
local FIRST = 3 -- commands in a div of class `first-gaps`
local MOST_PLACES = 2 -- sections named with a command
local KINDS = { sec = "Section", fig = "Figure", tbl = "Table", eq = "Equation" }
local HTML_ONLY = pandoc.Attr("", { "content-visible" }, { ["when-format"] = "html" })
local PDF_ONLY = pandoc.Attr("", { "content-visible" }, { ["when-format"] = "typst" })

-- Of the kinds of labels, those of what is counted apart.
local APART = { fig = "suppfig", tbl = "supptbl" }

local meta, ours = {}, {} -- of the document, and what stands there under `roofwright`
local commands = pandoc.List({}) -- that measure what is missing, each once
local places, on = {}, {} -- by its command, the sections where something is missing, and the folder of the machine
local chapter, section = nil, nil -- headings above the block that is pruned
local lost, named = {}, {} -- labels of what is not printed, and those that texts refer to
local apart, counts = {}, {} -- by its label, what is counted apart; their numbers by kind
local is_losing = false -- whether a text read before refers to something newly lost
local is_selection = false -- whether chapters are chosen

local function kind_of(label) return KINDS[label:match("^(%a+)%-")] end
local function has_class(element, class) return element.classes ~= nil and element.classes:includes(class) end

-- A capital letter at the start of a reference is the author's, not the label's.
local function label_of(name) return name:sub(1, 1):lower() .. name:sub(2) end

-- Returns all labels in blocks as keys.
local function labels(blocks)
  local found = {}
  local function note(element)
    found[element.identifier or ""] = true
    if element.t == "Table" then return nil, false end -- its thousands of cells have none
    if element.t ~= "Para" then return nil end
    for label in stringify(element):gmatch("{#(%a+%-[^ }]+)}") do found[label] = true end -- of an equation
  end
  blocks:walk({ traverse = "topdown", Block = note, Span = note })
  found[""] = nil
  return found
end

-- Notes that a block is not printed.
local function lose(block)
  for label in pairs(labels(pandoc.Blocks({ block }))) do
    is_losing = is_losing or named[label] and not lost[label]
    lost[label] = true
  end
end

-- Returns the blocks of the chapters that are chosen.
local function selected(blocks)
  local names = pandoc.List({})
  for name in (os.getenv("ROOFWRIGHT_CHAPTERS") or ""):gmatch("[^,]+") do names:insert(name) end
  if #names == 0 then names = pandoc.List(ours.chapters or {}):map(stringify) end
  is_selection = #names > 0
  local is_chosen = true
  return blocks:filter(function(block)
    if block.t == "Header" and block.level == 1 then
      local name = block.identifier:match("^sec%-(.+)$")
      is_chosen = not is_selection or not name or names:includes(name)
    end
    return is_chosen
  end)
end

-- Returns whether the metadata at a dotted path are true.
local function holds(path)
  local value = meta
  for key in path:gmatch("[^.]+") do value = type(value) == "table" and value[key] end
  return value == true
end

-- While blocks are pruned, a text tells what it lacks and links to: on both sides of a command, which may be empty,
-- stand these, for a missing value and for the gap in the place of a figure or table. The third is between a command
-- and the folder of its machine.
local VALUE, GAP, ON = "\1", "\2", "\3"

-- Returns what the conditions and claims leave of the blocks, with marks.
local function with_conditions(blocks)
  local chapter = ""
  local filter = { traverse = "topdown" }
  function filter.Link(link)
    if link.target:find("^#") then link.content:insert(pandoc.Str("@" .. link.target:sub(2))) end
    return link
  end
  function filter.Header(header)
    if header.level == 1 then chapter = header.identifier:gsub("^sec%-", "") end
  end
  local function is_met(given)
    return (not given["when-meta"] or holds(given["when-meta"])) and not (given["unless-meta"] and holds(given["unless-meta"]))
  end
  function filter.Span(span)
    local given = span.attributes
    if given["when-meta"] or given["unless-meta"] then
      return is_met(given) and span.content:walk(filter) or {}, false
    end
    if not has_class(span, "missing") then return nil end
    local machine = span.attributes.machine
    span.content = { pandoc.Str(VALUE .. (span.attributes.command or "") .. (machine and ON .. machine or "") .. VALUE) }
    return span
  end
  function filter.Div(div)
    local given = div.attributes
    local when, unless, is_shown = given["when-meta"], given["unless-meta"], is_met(given)
    if has_class(div, "gap") then return pandoc.Plain(GAP .. (given.command or "") .. GAP) end
    if not has_class(div, "content-visible") and not has_class(div, "reference") then return nil end
    for claim in (given.claims or ""):gmatch("%S+") do
      local other, name = claim:match("^(.+)%.([^.]+)$")
      is_shown = is_shown and holds((other or chapter) .. ".claims." .. (name or claim))
    end
    if not is_shown then
      lose(div)
      return {}, false
    end
    given["when-meta"], given["unless-meta"], given.claims = nil, nil, nil
    if (when or unless) and not given["when-format"] then return div.content:walk(filter), false end
    return div
  end
  return blocks:walk(filter)
end

-- Notes what a command adds to this section: a `Figure`, a `Table`, or values if nil.
local function place(command, kind)
  if not places[command] then
    commands:insert(command)
    places[command] = pandoc.List({})
  end
  if not section then return end
  local found = places[command]:find_if(function(each) return each.section == section end)
  if not found then
    found = { section = section, chapter = chapter }
    places[command]:insert(found)
  end
  found[kind or "values"] = (found[kind or "values"] or 0) + 1
end

-- Lists the commands between the marks in a text; returns whether there are such marks.
local function has_listed(text, mark, kind)
  for given in text:gmatch(mark .. "([^" .. mark .. "]*)" .. mark) do
    local command, machine = given:match("^([^" .. ON .. "]*)" .. ON .. "?(.*)$")
    if command ~= "" then
      place(command, kind)
      if machine ~= "" then on[command] = on[command] or machine end
    end
  end
  return text:find(mark, 1, true) ~= nil
end

-- Returns whether the text of a block lacks a value or refers to something that is not printed. A walk takes longer.
local function lacks(text)
  local is_lacking = has_listed(text, VALUE)
  for name in text:gmatch("@([%w_:.-]*%w)") do
    named[label_of(name)] = true
    is_lacking = is_lacking or lost[label_of(name)]
  end
  return is_lacking
end

-- Returns the blocks with `instead(block)` in the place of headings above nothing that `counts`. A question below a
-- heading (a paragraph in italics) goes with it.
local function replace_bare_headings(blocks, counts, instead)
  local kept, has_content, next_level = pandoc.Blocks({}), false, 0
  for at = #blocks, 1, -1 do
    local block, before = blocks[at], blocks[at - 1]
    local is_below = block.t == "Para" and before ~= nil and before.t == "Header"
    local is_question = is_below and #block.content == 1 and block.content[1].t == "Emph"
    local level = block.t == "Header" and block.level or is_question and before.level + 0.5
    if not level then
      has_content = has_content or counts(block)
    elseif has_content or next_level > level then
      has_content, next_level = false, level
    else
      block = instead(block)
    end
    if block then kept:insert(1, block) end
  end
  return kept
end

local function is_callout(block)
  return block.t == "Div" and block.classes:find_if(function(class) return class:find("^callout") ~= nil end) ~= nil
end

-- Returns blocks, perhaps of a box, without what lacks a value and without what that leaves empty.
local function pruned(blocks, is_box)
  local kept = pandoc.Blocks({})
  for _, block in ipairs(blocks) do
    local is_kept, title = true, block.t == "Div" and block.content[1]
    if block.t == "Header" and not is_box then
      section = block
      if block.level == 1 then chapter = block end
    end
    if block.t == "Para" or block.t == "Plain" or block.t == "Header" then
      local text = stringify(block)
      is_kept = #block.content > 0 and not lacks(text) and not has_listed(text, GAP)
    elseif block.t == "BulletList" or block.t == "OrderedList" then
      local function is_torn(part) return (part.t == "Para" or part.t == "Plain") and lacks(stringify(part)) end
      block.content = block.content:filter(function(item) return not item:find_if(is_torn) end)
      block.content = block.content:map(function(item) return pruned(item) end)
      is_kept = #block.content > 0
    elseif block.t == "Div" and block.identifier == "gaps" then
      is_kept = #commands > 0
    elseif block.t == "Div" and kind_of(block.identifier) then
      is_kept = not has_listed(stringify(block), GAP, kind_of(block.identifier))
    elseif title and title.t == "Header" and lacks(stringify(title)) then
      is_kept = false -- a box goes with its title
    elseif block.t == "BlockQuote" or block.t == "Div" then
      local is_mark = block.t == "Div" and block.identifier ~= "" and #block.content == 0 -- such as `#refs`
      block.content = pruned(block.content, is_callout(block))
      is_kept = #block.content > 0 or is_mark and not has_class(block, "cell")
    end
    if is_kept then kept:insert(block) else lose(block) end
  end
  return replace_bare_headings(kept, function() return true end, lose)
end

-- Returns a block; one of class `more` as it is printed, folded.
local function folded(block)
  if not has_class(block, "more") then return block end
  return pandoc.Div({
    pandoc.RawBlock("html", '<details class="more"><summary>All figures and tables</summary>'),
    pandoc.Div(block.content),
    pandoc.RawBlock("html", "</details>"),
  }, stringify(ours.pdf or "") == "full" and pandoc.Attr() or HTML_ONLY)
end

local function is_html_only(block) return block.t == "Div" and block.attributes["when-format"] == "html" end

-- Takes the number from a heading that only the page shows.
local function unnumbered(header)
  if not has_class(header, "unnumbered") then header.classes:insert("unnumbered") end
  apart[header.identifier] = { words = "Section “" .. stringify(header) .. "”" }
  return header
end

-- Gives a figure or table that is counted apart its label.
local function relabelled(div)
  local kind, name = div.identifier:match("^(%a+)(%-.+)$")
  local key = APART[kind]
  if not key then return nil end
  counts[kind] = (counts[kind] or 0) + 1
  apart[div.identifier] = { label = key .. name, words = KINDS[kind] .. " S" .. counts[kind] }
  local given = div.attributes
  div.identifier, given[key .. "-cap"], given[kind .. "-cap"] = key .. name, given[kind .. "-cap"], nil
  return div
end

-- Returns a table with a label as a div that is counted apart. Quarto leaves the label in the caption.
local function relabelled_table(element)
  local caption = pandoc.utils.blocks_to_inlines(element.caption.long)
  local label, last = element.identifier, caption[#caption]
  local written = last and last.t == "Str" and last.text:match("^{#(.+)}$")
  if written then
    caption:remove()
    label = written
  end
  if not label:find("^tbl%-") then return nil, false end
  element.identifier, element.caption = "", { long = {} }
  return relabelled(pandoc.Div({ element, pandoc.Para(caption) }, { label })), false
end

local function counted_apart(block)
  if not has_class(block, "more") and not is_html_only(block) then return block end
  return block:walk({ traverse = "topdown", Div = relabelled, Table = relabelled_table, Header = unnumbered })
end

-- Tells Quarto of the kinds that are counted apart, and the embedded engine.
local function with_kinds(settings)
  settings.custom = pandoc.List(settings.custom or {})
  for kind, key in pairs(APART) do
    settings.custom:insert({
      kind = "float",
      key = key,
      ["reference-prefix"] = KINDS[kind] .. " S",
      ["space-before-numbering"] = false,
      ["caption-location"] = kind == "tbl" and "top" or "bottom",
    })
  end
  return settings
end

-- Returns the words for one place: which figures and tables it lacks, and “Title” (@sec-title or its chapter's).
local function placed(each)
  local function reference(header)
    local label = header.identifier
    local is_numbered = not has_class(header, "unnumbered") and not apart[label]
    return label:find("^sec%-") and is_numbered and not lost[label] and pandoc.Cite(
      { pandoc.Str("@" .. label) }, { pandoc.Citation(label, "AuthorInText") }
    )
  end
  local words, shown = pandoc.Inlines({}), pandoc.List({})
  for _, kind in ipairs({ "Figure", "Table" }) do
    local number = each[kind]
    if number then shown:insert(number == 1 and "a " .. kind:lower() or number .. " " .. kind:lower() .. "s") end
  end
  if #shown > 0 then words:insert(pandoc.Str(table.concat(shown, " and ") .. " in ")) end
  local label = reference(each.section) or each.chapter and reference(each.chapter)
  words:insert(pandoc.Str("“"))
  words:extend(each.section.content)
  words:insert(pandoc.Str("”"))
  if label then words:extend({ pandoc.Space(), pandoc.Str("("), label, pandoc.Str(")") }) end
  return words
end

-- Returns a command with the sections that it adds to and where it runs.
local function reasoned(command)
  local words, found = pandoc.Inlines({ pandoc.Code(command) }), places[command]
  local more = #found - MOST_PLACES
  for at = 1, math.min(#found, MOST_PLACES) do
    local joint = at == 1 and ": " or at == #found and " and " or ", "
    words:insert(pandoc.Str(joint))
    words:extend(placed(found[at]))
  end
  if more > 0 then words:insert(pandoc.Str(" and " .. more .. " more")) end
  local machines = meta.machines or {}
  local name = machines.names and machines.names[on[command] or ""]
  local place = name and "the " .. stringify(name) or command:find("%-%-device cuda") and "a GPU"
  if place then words:insert(pandoc.Str((#found > 0 and ", on " or ": on ") .. place)) end
  words:insert(pandoc.Str("."))
  return { pandoc.Plain(words) }
end

-- Fills the list of commands. A cell that failed has left its traceback under Quarto (`execute: error: true`): a
-- sentence takes its place.
local function printed(div)
  if has_class(div, "cell-output-error") then
    local line = div.content[1].text:gsub("\27%[[%d;]*m", ""):match("([^\n]*)%s*$")
    if os.getenv("ROOFWRIGHT_STRICT") then error(line) end
    return pandoc.Para("This could not be computed: " .. line .. ". Everything that depends on it is left out.")
  end
  if div.identifier == "gaps" or has_class(div, "first-gaps") then
    local listed = commands
    if div.identifier ~= "gaps" then
      local function is_later(command) return (command:find("%-%-device") or command:find("add%-published")) ~= nil end
      local function is_sooner(command) return not is_later(command) end
      listed = pandoc.List({ table.unpack(commands:filter(is_sooner) .. commands:filter(is_later), 1, FIRST) })
    end
    div.content:insert(pandoc.BulletList(listed:map(reasoned)))
  end
  return div
end

-- Returns the blocks as they are printed: without marks, with words for references to what is not printed and, in the
-- PDF, to what only the page shows.
local function with_words(blocks)
  -- Quarto leaves out the label of a figure or table whose cell failed.
  local has_failed = false
  blocks:walk({ Div = function(div) has_failed = has_failed or has_class(div, "cell-output-error") end })
  local known, page_only = (is_selection or has_failed) and labels(blocks), labels(blocks:filter(is_html_only))
  -- Returns a reference, or what stands for it: these words, else the kind of what it refers to, and the reason.
  local function referred(reference, label, words)
    local kind, name, other = kind_of(label), label:match("%-(.+)$"), apart[label] or {}
    local target = other.label or label
    local reason = lost[label] and "[without data]"
      or is_selection and kind and not known[target] and "“" .. name .. "” [not in this selection]"
      or has_failed and (kind == "Figure" or kind == "Table") and not known[target] and "[could not be computed]"
      or page_only[target] and "in the HTML edition"
    if not reason then return reference, false end
    words = words or pandoc.Inlines((other.words or kind) .. " " .. reason)
    if not page_only[target] then return words, false end
    return { pandoc.Span({ reference }, HTML_ONLY), pandoc.Span(words, PDF_ONLY) }, false
  end
  local function cross_reference(cite)
    local label = label_of(cite.citations[1].id)
    if not kind_of(label) or #cite.citations ~= 1 then return nil end
    local other = apart[label]
    if other and not other.label then
      cite = pandoc.Link(other.words, "#" .. label)
    elseif other then
      cite = pandoc.Cite({ pandoc.Str("@" .. other.label) }, { pandoc.Citation(other.label, "AuthorInText") })
    end
    return referred(cite, label)
  end
  local function unmarked_link(link)
    if not link.target:find("^#") then return nil end
    link.content:remove()
    local label = link.target:sub(2)
    link.target = "#" .. ((apart[label] or {}).label or label)
    return referred(link, label, link.content)
  end
  local function unmarked(span) return has_class(span, "missing") and pandoc.Str("–") or nil end
  -- Quarto gives a table's caption as the text of an attribute, and reads it only after this filter.
  local function captioned(div)
    for _, name in ipairs({ "tbl-cap", APART.tbl .. "-cap" }) do
      local caption = div.attributes[name]
      if caption then
        local words = pandoc.read(caption).blocks:walk({ Cite = cross_reference, traverse = "topdown" })
        div.attributes[name] = pandoc.write(pandoc.Pandoc(words), "markdown", { wrap_text = "none" })
      end
    end
    return printed(div)
  end
  return blocks:walk({
    Cite = cross_reference, Div = captioned, Link = unmarked_link, Span = unmarked, traverse = "topdown",
  })
end

function Pandoc(document)
  meta, ours = document.meta, document.meta.roofwright or {}
  local blocks = with_conditions(selected(document.blocks))
  repeat -- until no text that is printed refers to something that is not
    is_losing = false
    blocks = pruned(blocks)
  until not is_losing
  -- A heading above what only the page shows stands there alone.
  local function is_in_both(block) return not is_html_only(block) end
  local function on_the_page(block)
    return pandoc.Div({ block.t == "Header" and unnumbered(block) or block }, HTML_ONLY)
  end
  blocks = replace_bare_headings(blocks:map(counted_apart):map(folded), is_in_both, on_the_page)
  document.blocks = with_words(blocks)
  document.meta.crossref = with_kinds(meta.crossref or {})
  return document
end
