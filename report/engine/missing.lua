-- Decides what of the chapters is printed, for both engines (filters in _quarto.yml, at: pre-ast).
--
-- 1. Chapters: ROOFWRIGHT_CHAPTERS (names separated by commas), else `roofwright: chapters:` in _quarto.yml, names those
--    that are printed. A chapter begins at a heading of the first level with the label `sec-NAME`.
-- 2. Conditions: `::: {.content-visible when-meta="training.step"}`, `unless-meta=`, and the same for `.content-hidden`.
--    Cells set such metadata. A path that is not set is false. `when-format=` is left to the engine.
-- 3. Reference blocks: `::: {.reference claims="fastest pooling"}` is printed where all claims hold. The claim `fastest`
--    of the chapter `training` is the metadata `training.claims.fastest`; other chapters' claims are `training.fastest`.
-- 4. Missing values: a paragraph, list item or definition with a span of class `missing` is not printed, nor is a figure
--    or table that holds a div of class `gap`. What refers to something that is not printed goes too, then headings
--    with nothing below them. The `command`s of all these are listed in the div `#gaps`.
-- 5. `::: {.more}` is printed in the HTML alone, folded at its chapter's end; with `roofwright: pdf: full` in the PDF too.

local stringify = pandoc.utils.stringify
local KINDS = { sec = "Section", fig = "Figure", tbl = "Table", eq = "Equation" }
local MORE = "All figures and tables"
local OURS = "On our machine."

local meta = {} -- of the document
local commands = pandoc.List({}) -- that measure what is missing, each once
local lost = {} -- labels of what is not printed
local is_gaps_empty = false

local function kind_of(label) return KINDS[label:match("^(%a+)%-")] end

local function has_class(element, class) return element.classes ~= nil and element.classes:includes(class) end

-- A capital letter at the start of a reference is the author's, not the label's.
local function label_of(citation) return citation.id:sub(1, 1):lower() .. citation.id:sub(2) end

local function words(text)
  local inlines = pandoc.Inlines({})
  for word in text:gmatch("%S+") do
    if #inlines > 0 then inlines:insert(pandoc.Space()) end
    inlines:insert(pandoc.Str(word))
  end
  return inlines
end

-- Returns all labels in blocks as keys, a section's with its title.
local function labels(blocks)
  local found = {}
  local function note(element)
    if element.identifier and element.identifier ~= "" then found[element.identifier] = stringify(element) end
  end
  local function note_written(text) -- what pandoc leaves as it stands: labels of equations, and of some captions
    local label = text.text:match("^{#(%a+%-[^ }]+)}$")
    if label then found[label] = "" end
  end
  blocks:walk({
    traverse = "topdown",
    Table = function(block) -- of its thousands of words only the caption may hold a label
      if block.identifier ~= "" then found[block.identifier] = "" end
      block.caption.long:walk({ Str = note_written })
      return nil, false
    end,
    Div = function(block) if block.identifier ~= "" then found[block.identifier] = "" end end,
    Block = note,
    Str = note_written,
    Inline = note,
  })
  return found
end

-- Puts what `instead(label, is_first)` returns in the place of references; `is_first` is true where a sentence begins.
local function replace_references(blocks, instead)
  return blocks:walk({
    Inlines = function(inlines)
      local found, is_changed = pandoc.Inlines({}), false
      for at, inline in ipairs(inlines) do
        local before, end_before = inlines[at - 1], inlines[at - 2]
        local is_first = before == nil or before.t == "SoftBreak"
          or before.t == "Space" and end_before ~= nil and end_before.t == "Str" and end_before.text:find("[.?!]$") ~= nil
        local others = pandoc.Inlines({})
        for number, citation in ipairs(inline.t == "Cite" and inline.citations or {}) do
          local other = instead(label_of(citation), is_first and number == 1, citation)
          is_changed = is_changed or other ~= nil
          if number > 1 then others:extend({ pandoc.Str(","), pandoc.Space() }) end
          others:extend(other or { pandoc.Cite({}, { citation }) })
        end
        found:extend(#others > 0 and others or { inline })
      end
      return is_changed and found or nil
    end,
  })
end

local function selected(blocks)
  local names = pandoc.List({})
  for name in (os.getenv("ROOFWRIGHT_CHAPTERS") or ""):gmatch("[^,]+") do names:insert(name) end
  if #names == 0 and meta.roofwright and meta.roofwright.chapters then
    names = meta.roofwright.chapters:map(stringify)
  end
  if #names == 0 then return blocks end
  local kept, said, known, title = pandoc.Blocks({}), {}, pandoc.List({}), nil
  for _, block in ipairs(blocks) do
    if block.t == "Header" and block.level == 1 then
      local name = block.identifier:match("^sec%-(.+)$")
      if name then known:insert(name) end
      title = name and not names:includes(name) and stringify(block) or nil
    end
    if title then
      for label, own_title in pairs(labels(pandoc.Blocks({ block }))) do
        local kind = kind_of(label)
        local of = kind == "Section" and " “" .. own_title .. "”" or " of “" .. title .. "”"
        said[label] = (kind or "Part") .. of .. " [not in this selection]"
      end
    else
      kept:insert(block)
    end
  end
  for _, name in ipairs(names) do
    if not known:includes(name) then
      error("roofwright: chapters in _quarto.yml: '" .. name .. "' is not one of " .. table.concat(known, ", "))
    end
  end
  kept = replace_references(kept, function(label) return said[label] and words(said[label]) end)
  return kept:walk({ Link = function(link) if said[link.target:sub(2)] then return link.content end end })
end

-- Returns whether the metadata at a dotted path are true.
local function holds(path)
  local value = meta
  for key in path:gmatch("[^.]+") do
    if type(value) ~= "table" then return false end
    value = value[key]
  end
  return value == true
end

-- Returns what the condition of a div or span leaves of it; nil for one without.
local function decided(element)
  local when, unless = element.attributes["when-meta"], element.attributes["unless-meta"]
  local is_shown = has_class(element, "content-visible")
  if not (when or unless) or not (is_shown or has_class(element, "content-hidden")) then return nil end
  local is_met = not (when and not holds(when)) and not (unless and holds(unless))
  if is_met and element.attributes["when-format"] then
    element.attributes["when-meta"], element.attributes["unless-meta"] = nil, nil
    return element
  end
  return is_met == is_shown and element.content or {}
end

-- Returns a div between two pieces of Typst, which Quarto and pandoc drop elsewhere.
local function framed(div, call)
  return { pandoc.RawBlock("typst", "#" .. call .. "["), div, pandoc.RawBlock("typst", "]") }
end

-- Returns a reference block with its heading, and nothing where one of its claims does not hold.
local function claimed(div, chapter)
  for claim in (div.attributes.claims or ""):gmatch("%S+") do
    local other, name = claim:match("^(.+)%.([^.]+)$")
    if not holds((other or chapter) .. ".claims." .. (name or claim)) then return {} end
  end
  local first = div.content[1]
  local label = pandoc.Inlines({ pandoc.Span({ pandoc.Strong(words(OURS)) }, { class = "label" }) })
  if first and first.t == "Para" then
    first.content = label .. { pandoc.Space() } .. first.content
    div.content[1] = first
  else
    div.content:insert(1, pandoc.Para(label))
  end
  div.attributes.claims = nil
  return div
end

local function with_conditions(blocks)
  local kept, chapter = pandoc.Blocks({}), ""
  for _, block in ipairs(blocks) do
    if block.t == "Header" and block.level == 1 then chapter = block.identifier:gsub("^sec%-", "") end
    kept:extend(pandoc.Blocks({ block }):walk({ Div = decided, Span = decided }):walk({
      Div = function(div) if has_class(div, "reference") then return claimed(div, chapter) end end,
    }))
  end
  return kept
end

local function list(command)
  if command and command ~= "" and not commands:includes(command) then commands:insert(command) end
end

-- Returns whether a block lacks a value or refers to something that is not printed; lists the commands.
local function lacks(block)
  local is_found = false
  block:walk({
    Span = function(span)
      if has_class(span, "missing") then
        is_found = true
        list(span.attributes.command)
      end
    end,
    Cite = function(cite)
      for _, citation in ipairs(cite.citations) do is_found = is_found or lost[label_of(citation)] ~= nil end
    end,
    Link = function(link) is_found = is_found or lost[link.target:match("^#(.+)$") or ""] ~= nil end,
  })
  return is_found
end

local function is_gap(div)
  if has_class(div, "gap") then
    list(div.attributes.command)
    return true
  end
  local is_found = false
  if kind_of(div.identifier) then
    div:walk({ Div = function(part) if has_class(part, "gap") then is_found = is_gap(part) end end })
  end
  return is_found
end

-- Returns whether the heading of a callout lacks a value.
local function is_box_without_title(div)
  local first = div.content[1]
  return first ~= nil and first.t == "Header" and div.attr.classes:find_if(function(class) return class:find("^callout") end) and lacks(first)
end

-- Returns the level of a heading, and of the chapter's question below it (a paragraph in italics), which needs an answer.
local function level_of(block)
  if block.t == "Header" then return block.level end
  local is_question = block.t == "Para" and #block.content == 1 and block.content[1].t == "Emph"
  return is_question and 1.5 or nil
end

local function without_bare_headings(blocks)
  local kept, has_content, next_level = pandoc.Blocks({}), false, 0
  for at = #blocks, 1, -1 do
    local level = level_of(blocks[at])
    if not level or has_content or next_level > level then kept:insert(1, blocks[at]) end
    if not level then
      has_content = true
    elseif has_content or next_level > level then
      has_content, next_level = false, level
    end
  end
  return kept
end

-- Returns blocks without what lacks a value and without what that leaves empty.
local function pruned(blocks)
  local kept = pandoc.Blocks({})
  for _, block in ipairs(blocks) do
    local is_kept = true
    if block.t == "Para" or block.t == "Plain" or block.t == "Header" then
      is_kept = #block.content > 0 and not lacks(block)
    elseif block.t == "BulletList" or block.t == "OrderedList" then
      local items = pandoc.List({})
      for _, item in ipairs(block.content) do
        local is_whole = true
        for _, part in ipairs(item) do
          if (part.t == "Para" or part.t == "Plain") and lacks(part) then is_whole = false end
        end
        if is_whole then items:insert(pruned(item)) end
      end
      block.content = items
      is_kept = #items > 0
    elseif block.t == "DefinitionList" then
      block.content = block.content:filter(function(item) return not lacks(pandoc.DefinitionList({ item })) end)
      is_kept = #block.content > 0
    elseif block.t == "Div" and block.identifier == "gaps" then
      is_kept = not is_gaps_empty
    elseif block.t == "Div" and (is_gap(block) or is_box_without_title(block)) then
      is_kept = false
    elseif block.t == "BlockQuote" or block.t == "Div" and not kind_of(block.identifier) then
      local is_mark = block.t == "Div" and block.identifier ~= "" and #block.content == 0 -- such as `#refs`
      block.content = pruned(block.content)
      is_kept = #block.content > 0 or is_mark and not has_class(block, "cell")
    end
    if is_kept then kept:insert(block) end
  end
  return without_bare_headings(kept)
end

-- Prunes until nothing that is printed refers to something that is not.
local function settled(blocks, all)
  local count, before = 0, -1
  while count ~= before do
    blocks, before = pruned(blocks), count
    local present = labels(blocks)
    lost, count = {}, 0
    for label in pairs(all) do
      if not present[label] then lost[label], count = true, count + 1 end
    end
  end
  return blocks
end

-- Returns the blocks with those of class `more` folded at their chapters' ends.
local function with_more(blocks)
  local is_full = meta.roofwright and meta.roofwright.pdf and stringify(meta.roofwright.pdf) == "full"
  local kept, more = pandoc.Blocks({}), pandoc.Blocks({})
  local function finish()
    if #more == 0 then return end
    local visible = is_full and {} or { ["when-format"] = "html" }
    kept:insert(pandoc.Div({
      pandoc.RawBlock("html", '<details class="more"><summary>' .. MORE .. "</summary>"),
      pandoc.Div(more),
      pandoc.RawBlock("html", "</details>"),
    }, pandoc.Attr("", is_full and {} or { "content-visible" }, visible)))
    more = pandoc.Blocks({})
  end
  for _, block in ipairs(blocks) do
    if block.t == "Header" and block.level == 1 then finish() end
    kept:extend(pandoc.Blocks({ block }):walk({
      traverse = "topdown",
      Div = function(div)
        if not has_class(div, "more") then return nil end
        more:extend(div.content)
        return {}, false
      end,
    }))
  end
  finish()
  return kept
end

local function is_html_only(block)
  return block.t == "Div" and has_class(block, "content-visible") and block.attributes["when-format"] == "html"
end

-- Lets a reference to what only the page shows say so in the PDF.
local function with_editions(blocks)
  local elsewhere, kept = {}, pandoc.Blocks({})
  for _, block in ipairs(blocks) do
    for label in pairs(is_html_only(block) and labels(block.content) or {}) do elsewhere[label] = true end
  end
  local function instead(label, is_first, citation)
    if not elsewhere[label] then return nil end
    local kind = (kind_of(label) or "Part"):lower()
    local article = (is_first and "A" or "a") .. (kind == "equation" and "n " or " ")
    local format = { ["when-format"] = "html" }
    return {
      pandoc.Span({ pandoc.Cite({}, { citation }) }, pandoc.Attr("", { "content-visible" }, format)),
      pandoc.Span(words(article .. kind .. " in the HTML edition"), pandoc.Attr("", { "content-hidden" }, format)),
    }
  end
  for _, block in ipairs(blocks) do
    kept:extend(is_html_only(block) and { block } or replace_references(pandoc.Blocks({ block }), instead))
  end
  return kept
end

local function printed(div)
  if div.identifier == "gaps" then
    div.content:insert(pandoc.BulletList(commands:map(function(command) return { pandoc.Plain(pandoc.Code(command)) } end)))
    return div
  end
  for _, class in ipairs({ "answer", "reference" }) do
    if has_class(div, class) then return framed(div, class) end
  end
end

function Pandoc(document)
  meta = document.meta
  local blocks = selected(document.blocks)
  local all = labels(blocks)
  blocks = settled(with_conditions(blocks), all)
  if #commands == 0 then
    is_gaps_empty = true
    blocks = settled(blocks, all)
  end
  -- What captions and tables name stays in words.
  blocks = replace_references(blocks, function(label)
    return lost[label] and words("a " .. (kind_of(label) or "part"):lower() .. " without data")
  end)
  document.blocks = with_editions(with_more(blocks)):walk({ Div = printed })
  return document
end
