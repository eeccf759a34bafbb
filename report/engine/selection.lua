-- Leaves out the chapters that are not chosen: by the environment variable ROOFWRIGHT_CHAPTERS (names with commas
-- between them), else by `roofwright: chapters:` in the metadata. A chapter begins at a heading of the first level
-- whose label is its name after `sec-`. A reference into what is left out says so, where its number would stand.
-- So does, in one edition, a reference to what only the other shows: `::: {.content-visible when-format="html"}`.
-- Third, a sentence that stands in for what was not measured (of class `gap`) moves into one list, in the div `gaps`;
-- the figure or table in whose place it stood goes, a section that has nothing else to say goes with its heading, and
-- so does a whole chapter whose answer (of class `answer`) is such a sentence.
-- Quarto runs it (filters in _quarto.yml, at: pre-ast), and so does the embedded engine.

local stringify = pandoc.utils.stringify
local KINDS = { sec = "Section", fig = "Figure", tbl = "Table", eq = "Equation" }
local NOTE = "[not in this selection]"
local EDITIONS = { html = "the HTML edition", typst = "the PDF" }

local function chosen(metadata)
  local names = pandoc.List({})
  for name in (os.getenv("ROOFWRIGHT_CHAPTERS") or ""):gmatch("[^,]+") do
    names:insert(name)
  end
  local settings = metadata.roofwright
  if #names == 0 and settings and settings.chapters then
    for _, name in ipairs(settings.chapters) do
      names:insert(stringify(name))
    end
  end
  return names
end

-- Calls `note` with each label in blocks, that of a section with its title.
local function each_label(blocks, note)
  local function note_identifier(element)
    if element.identifier and element.identifier ~= "" then
      note(element.identifier)
    end
  end
  local function note_written(text)
    -- labels that pandoc leaves as they stand: of equations, and of some captions
    local label = text.text:match("^{#(%a+%-[^ }]+)}$")
    if label then note(label) end
  end
  blocks:walk({
    traverse = "topdown",
    Header = function(header) note(header.identifier, stringify(header)) end,
    Table = function(block)
      -- of a table's thousands of words only its caption may hold a label
      note_identifier(block)
      block.caption.long:walk({ Str = note_written, Inline = note_identifier })
      return nil, false
    end,
    Block = note_identifier,
    Str = note_written,
    Inline = note_identifier,
  })
end

-- Adds to `said` what a reference to each label in a block of the chapter `title` says.
local function note_labels(block, title, said)
  each_label(pandoc.Blocks({ block }), function(label, own_title)
    local kind = KINDS[label:match("^(%a+)%-")]
    if kind == "Section" then
      said[label] = kind .. " “" .. (own_title or title) .. "” " .. NOTE
    else
      said[label] = (kind or "Part") .. " of “" .. title .. "” " .. NOTE
    end
  end)
end

local function words(text)
  local inlines = pandoc.Inlines({})
  for word in text:gmatch("%S+") do
    if #inlines > 0 then inlines:insert(pandoc.Space()) end
    inlines:insert(pandoc.Str(word))
  end
  return inlines
end

-- Returns inlines that begin with a capital letter, in each of their editions.
local function capitalised(inlines)
  local first = true
  return pandoc.Inlines(inlines):walk({
    traverse = "topdown",
    Span = function(span)
      span.content = capitalised(span.content)
      return span, false
    end,
    Str = function(text)
      if not first then return nil end
      first = false
      return pandoc.Str((text.text:gsub("^%l", string.upper)))
    end,
  })
end

-- Returns the filter of inlines that puts what `instead` returns for a label, if anything, in the place of each
-- reference. At the start of a line, where a sentence begins, that has a capital letter.
local function citing(instead)
  local function replaced(cite)
    local inlines, changed = pandoc.Inlines({}), false
    for number, citation in ipairs(cite.citations) do
      if number > 1 then inlines:extend({ pandoc.Str(","), pandoc.Space() }) end
      -- a capital letter at the start of a reference is the writer's, not the label's
      local label = citation.id:sub(1, 1):lower() .. citation.id:sub(2)
      local other = instead(citation.id, citation) or instead(label, citation)
      changed = changed or other ~= nil
      inlines:extend(other or { pandoc.Cite({}, { citation }) })
    end
    return changed and inlines or nil
  end
  return function(inlines)
    local found, changed = pandoc.Inlines({}), false
    for at, inline in ipairs(inlines) do
      local other = inline.t == "Cite" and replaced(inline)
      if other and (at == 1 or inlines[at - 1].t == "SoftBreak") then other = capitalised(other) end
      found:extend(other or { inline })
      changed = changed or other
    end
    return changed and found or nil
  end
end

local function without_references(blocks, said)
  return blocks:walk({
    Inlines = citing(function(label) return said[label] and words(said[label]) end),
    Link = function(link)
      if link.target:sub(1, 1) == "#" and said[link.target:sub(2)] then return link.content end
    end,
  })
end

local function select_chapters(document)
  local names = chosen(document.meta)
  if #names == 0 then return nil end
  local kept, said, known = pandoc.Blocks({}), {}, pandoc.List({})
  local title -- of the chapter that is being left out
  for _, block in ipairs(document.blocks) do
    if block.t == "Header" and block.level == 1 then
      local name = block.identifier:match("^sec%-(.+)$")
      if name then known:insert(name) end
      title = name and not names:includes(name) and stringify(block) or nil
    end
    if title then note_labels(block, title, said) else kept:insert(block) end
  end
  for _, name in ipairs(names) do
    if not known:includes(name) then
      error("roofwright: chapters in _quarto.yml: '" .. name .. "' is not one of " .. table.concat(known, ", "))
    end
  end
  document.blocks = without_references(kept, said)
  return document
end

-- Returns the format that alone shows a block, if there is one.
local function shown_in(block)
  return block.t == "Div" and block.classes:includes("content-visible") and block.attributes["when-format"] or nil
end

local function in_format(class, format, inlines)
  return pandoc.Span(inlines, pandoc.Attr("", { class }, { ["when-format"] = format }))
end

local function name_editions(document)
  local formats = {}
  for _, block in ipairs(document.blocks) do
    local format = shown_in(block)
    if format then
      each_label(block.content, function(label) formats[label] = format end)
    end
  end
  if next(formats) == nil then return nil end
  local function instead(label, citation)
    local format = formats[label]
    if not format then return nil end
    local kind = (KINDS[label:match("^(%a+)%-")] or "Part"):lower()
    local article = kind == "equation" and "an " or "a "
    return {
      in_format("content-visible", format, { pandoc.Cite({}, { citation }) }),
      in_format("content-hidden", format, words(article .. kind .. " of " .. EDITIONS[format])),
    }
  end
  local blocks = pandoc.Blocks({})
  for _, block in ipairs(document.blocks) do
    blocks:extend(shown_in(block) and { block } or pandoc.Blocks({ block }):walk({ Inlines = citing(instead) }))
  end
  document.blocks = blocks
  return document
end

-- Returns the sentence that stands in a figure or table, if one does.
local function gap_in(block)
  local found
  block:walk({
    Div = function(div)
      if div.classes:includes("gap") then found = div end
    end,
  })
  return found
end

local function is_empty(block)
  return (block.t == "Para" or block.t == "Plain") and not stringify(block):find("%S") and #block.content == 0
end

-- Returns the blocks without headings that nothing follows, whose labels `note` gets.
local function without_bare_headings(blocks, note)
  local kept, has_content, next_level = pandoc.Blocks({}), false, 0
  for at = #blocks, 1, -1 do
    local block = blocks[at]
    if block.t == "Header" and not has_content and next_level <= block.level then
      note(block.identifier)
    else
      if block.t == "Header" then
        has_content, next_level = false, block.level
      else
        has_content = true
      end
      kept:insert(1, block)
    end
  end
  return kept
end

local function is_gap(inline)
  return inline.t == "Span" and inline.classes:includes("gap")
end

-- Returns inlines without blanks at their ends, and without a second one in a row.
local function trimmed(inlines)
  local kept = pandoc.Inlines({})
  for _, inline in ipairs(inlines) do
    local blank = inline.t == "Space" or inline.t == "SoftBreak"
    local after_blank = #kept == 0 or kept[#kept].t == "Space" or kept[#kept].t == "SoftBreak"
    if not (blank and after_blank) then kept:insert(inline) end
  end
  while #kept > 0 and (kept[#kept].t == "Space" or kept[#kept].t == "SoftBreak") do kept:remove() end
  return kept
end

-- Says whether nothing but sentences that stand in for what was not measured answers a chapter.
local function has_no_answer(block)
  if block.t ~= "Div" or not block.classes:includes("answer") then return false end
  for _, para in ipairs(block.content) do
    for _, inline in ipairs(para.content or {}) do
      if not is_gap(inline) and inline.t ~= "Space" and inline.t ~= "SoftBreak" then return false end
    end
  end
  return true
end

-- Returns the blocks without the chapters that have no answer; `note` gets their labels, `list` what they lack.
local function answered(blocks, note, list)
  local kept, chapter, lacks = pandoc.Blocks({}), pandoc.Blocks({}), nil
  local function finish()
    if lacks then
      each_label(chapter, note)
      lacks:walk({ Span = function(span) if is_gap(span) then list(span) end end })
    else
      kept:extend(chapter)
    end
    chapter, lacks = pandoc.Blocks({}), nil
  end
  for _, block in ipairs(blocks) do
    if block.t == "Header" and block.level == 1 then finish() end
    chapter:insert(block)
    if has_no_answer(block) then lacks = block end
  end
  finish()
  return kept
end

-- Returns the blocks with what was not measured listed in the place for it, or at their end where they have none.
-- Without anything to list that place goes, with its heading.
local function with_list(blocks, items)
  local placed, found = pandoc.Blocks({}), false
  for _, block in ipairs(blocks) do
    if block.t ~= "Div" or block.identifier ~= "gaps" then
      placed:insert(block)
    elseif #items > 0 then
      found = true
      block.content:insert(pandoc.BulletList(items))
      placed:insert(block)
    elseif #placed > 0 and placed[#placed].t == "Header" then
      placed:remove()
    end
  end
  if not found and #items > 0 then placed:insert(pandoc.BulletList(items)) end
  return placed
end

local function list_gaps(document)
  local said, known, items = {}, {}, pandoc.List({})
  local function note(label)
    local kind = KINDS[label:match("^(%a+)%-")]
    if kind then said[label] = (kind == "Equation" and "an " or "a ") .. kind:lower() .. " without data" end
  end
  -- Takes a sentence into the list, unless it is there, and out of the text.
  local function list(element)
    local text = stringify(element)
    if not known[text] then
      known[text] = true
      local blocks = element.t == "Span" and pandoc.Blocks({ pandoc.Plain(element.content) }) or element.content
      items:insert(blocks:walk({ Para = function(para) return pandoc.Plain(para.content) end }))
    end
    return {}
  end
  local blocks = answered(document.blocks, note, list)
  local emptied
  function emptied(blocks)
    local kept = pandoc.Blocks({})
    for _, block in ipairs(blocks) do
      local bare = block.t == "Div" and block.identifier == "" and #emptied(block.content) == 0
      if not (bare or is_empty(block)) then kept:insert(block) end
    end
    return kept
  end
  blocks = blocks:walk({
    traverse = "topdown",
    Div = function(div)
      if div.classes:includes("gap") then return list(div), false end
      local gap = div.identifier:match("^%a+%-") and KINDS[div.identifier:match("^(%a+)%-")] and gap_in(div)
      if gap then
        note(div.identifier)
        return list(gap), false
      end
    end,
    Para = function(para)
      local inlines, had = pandoc.Inlines({}), false
      for _, inline in ipairs(para.content) do
        had = had or is_gap(inline)
        inlines:extend(is_gap(inline) and list(inline) or { inline })
      end
      if not had then return nil, false end
      para.content = trimmed(inlines)
      return para, false
    end,
    Table = function() return nil, false end,
  })
  if #items == 0 then
    document.blocks = with_list(blocks, items)
    return document
  end
  local function pruned(own)
    local kept = pandoc.Blocks({})
    for _, block in ipairs(own) do
      if block.t == "Div" and block.classes:includes("content-visible") then
        block.content = pruned(block.content)
        if #block.content > 0 then kept:insert(block) end
      else
        kept:insert(block)
      end
    end
    return without_bare_headings(emptied(kept), note)
  end
  document.blocks = without_references(pruned(with_list(blocks, items)), said)
  return document
end

-- An answer to a chapter's question is set in bold, in both editions.
local function stressed(div)
  if not div.classes:includes("answer") then return nil end
  return div:walk({ Para = function(para) return pandoc.Para({ pandoc.Strong(para.content) }) end })
end

return {
  { Pandoc = select_chapters }, { Pandoc = list_gaps }, { Pandoc = name_editions }, { Div = stressed },
}
