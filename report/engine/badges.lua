-- Marks what is not the reader's in a reader's paper, for both engines (a filter in _quarto.yml, at: pre-ast; the styles:
-- page.css, style.typ). It is one if a cell sets `machines.here` (report/title_block.py).
--
-- A value tells where it was measured: class `of-own`, on a machine of the reader's, or `of-reference`, on another one.
-- Counted and datasheet values have neither. A chapter or section whose text has values of the second kind alone begins
-- with a band, below its question. Elsewhere a sentence with such values alone is grey, behind a badge. Blocks of class
-- `reference` have their frame (looks.lua).

local stringify = pandoc.utils.stringify
local here, name = "", pandoc.Inlines({}) -- the name of the reader's machine, as text and as it was written

local function has_class(element, class) return element.classes ~= nil and element.classes:includes(class) end

-- Returns whether a picture, whose texts are text, names the reader's machine.
local function draws_own(image)
  local file = io.open(image.src)
  local text = file and file:read("a") or ""
  if file then file:close() end
  return text:find(here, 1, true) ~= nil
end

-- Returns whether blocks or inlines hold something of the reader's, and something of others. Frames, and what one
-- format alone shows, do not count.
local function origins(content)
  local is_own, is_others = false, false
  content:walk({
    traverse = "topdown",
    Div = function(div) if has_class(div, "reference") or has_class(div, "content-visible") then return div, false end end,
    Table = function(rows)
      is_own = is_own or stringify(rows):find(here, 1, true) ~= nil
      return rows, false
    end,
    Image = function(image) is_own = is_own or draws_own(image) end,
    Span = function(span)
      is_own, is_others = is_own or has_class(span, "of-own"), is_others or has_class(span, "of-reference")
    end,
  })
  return is_own, is_others
end

local function typst(text) return pandoc.RawInline("typst", text) end

-- Returns the inlines of each sentence; blanks after one belong to it.
local function sentences(inlines)
  local found, is_over = pandoc.List({ pandoc.Inlines({}) }), false
  for _, part in ipairs(inlines) do
    local is_blank = part.t == "Space" or part.t == "SoftBreak"
    if is_over and not is_blank then found:insert(pandoc.Inlines({})) end
    found[#found]:insert(part)
    local is_text = part.t == "Str" or part.t == "Strong" or part.t == "Emph"
    is_over = is_blank and is_over or is_text and stringify(part):find("[.!?]$") ~= nil
  end
  return found
end

-- Returns inlines of a class, which Typst shows by the function of that name.
local function styled(inlines, class)
  return pandoc.Inlines({ typst("#" .. class .. "["), pandoc.Span(inlines, { class = class }), typst("]") })
end

-- Returns a paragraph with its sentences of others in grey; a badge stands before the first of several.
local function marked(paragraph)
  local content, was_others = pandoc.Inlines({}), false
  for _, sentence in ipairs(sentences(paragraph.content)) do
    local is_own, is_others = origins(sentence)
    local is_marked = is_others and not is_own
    if is_marked and not was_others then content:extend(styled({ pandoc.Str("reference") }, "badge") .. { pandoc.Space() }) end
    content:extend(is_marked and styled(sentence, "referred") or sentence)
    was_others = is_marked
  end
  paragraph.content = content
  return paragraph
end

-- Figures and tables with their captions, and frames, stay as they are.
local filter = { traverse = "topdown", Para = marked, Plain = marked }
function filter.Div(div)
  local is_float = div.identifier:find("^fig%-") or div.identifier:find("^tbl%-")
  if is_float or has_class(div, "reference") then return div, false end
end
function filter.Table(rows) return rows, false end

local function band()
  local words = pandoc.Inlines("No number in the text of this section was measured on the") .. { pandoc.Space() }
  return pandoc.Div({ pandoc.Para(words .. name .. { pandoc.Str(".") }) }, { class = "reference band" })
end

-- Returns the blocks of sections with a band at those of others alone, else with marked sentences.
local function with_bands(blocks, level)
  local kept, section = pandoc.Blocks({}), nil
  local function close()
    if not section then return end
    local head, body = section[1], pandoc.Blocks({ table.unpack(section, 2) })
    local is_own, is_others = origins(body)
    local is_band = is_others and not is_own and not has_class(head, "unnumbered")
    kept:insert(head)
    if is_band then
      local is_question = body[1].t == "Para" and #body[1].content == 1 and body[1].content[1].t == "Emph"
      body:insert(is_question and 2 or 1, band())
      kept:extend(body)
    else
      kept:extend(level < 2 and with_bands(body, level + 1) or body:walk(filter))
    end
  end
  local before = pandoc.Blocks({})
  for _, block in ipairs(blocks) do
    if block.t == "Header" and block.level == level then
      close()
      section = pandoc.Blocks({ block })
    elseif section then
      section:insert(block)
    else
      before:insert(block)
    end
  end
  close()
  return before:walk(filter) .. kept
end

function Pandoc(document)
  local machines = document.meta.machines
  if not machines or not machines.here then return nil end
  name, here = pandoc.Inlines(machines.here), stringify(machines.here)
  document.blocks = with_bands(document.blocks, 1)
  return document
end
