-- How both engines show what the chapters hold (filters in _quarto.yml, at: pre-ast; the styles: page.css, style.typ).
--
-- Callouts, answers and reference blocks have frames: Quarto frames callouts with Bootstrap, which the page does without.
-- Narrow pictures are of the class `beside`: they have text beside them. Flat ones, `flat`, have no caption there.
-- In the PDF formulas are read aloud as their TeX, and a displayed one stays with its sentence.

local CALLOUTS = pandoc.List({ "note", "tip", "important", "warning", "caution" }):map(function(kind) return "callout-" .. kind end)
local BESIDE = 430 -- pixels of the widest picture that has text beside it: a narrow figure, and what its axes take more
local FLAT = 130 -- pixels of the highest picture that is lower than most captions beside it

local of_machine = "" -- the reference machine's name behind a colon, where a cell tells it (report/title_block.py)

local function raw(format, text) return pandoc.RawBlock(format, text) end

-- Other writers drop what is raw in these.
local function callout(div, kind)
  local content, title = div.content, pandoc.Inlines(div.attributes.title or kind:match("%-(.+)"):gsub("^%l", string.upper))
  if content[1] and content[1].t == "Header" then title = content:remove(1).content end
  local outer, inner = "div", "div"
  if div.attributes.collapse == "true" then outer, inner = "details", "summary" end
  local id, label = "", ""
  if div.identifier ~= "" then id, label = (' id="%s"'):format(div.identifier), (" <%s>"):format(div.identifier) end
  return pandoc.Blocks({
    raw("html", ('<%s class="callout %s"%s><%s class="title">'):format(outer, kind, id, inner)),
    raw("typst", ('#boxed("%s")['):format(kind)),
    pandoc.Plain(title),
    raw("html", ('</%s><div class="body">'):format(inner)),
    raw("typst", "]["),
  }) .. content .. { raw("html", ("</div></%s>"):format(outer)), raw("typst", "]" .. label) }
end

local filter = { traverse = "topdown" }

function filter.Div(div)
  local kind = div.classes:find_if(function(class) return CALLOUTS:includes(class) end)
  if kind then return callout(div, kind):walk(filter), false end
  local frame = div.classes:find_if(function(class) return class == "answer" or class == "reference" end)
  if frame == "reference" then
    if div.content[1].t ~= "Para" then div.content:insert(1, pandoc.Para({})) end
    local whose = div.classes:includes("band") and "" or of_machine
    local label = pandoc.Span({ pandoc.Strong("Reference"), pandoc.Str(whose .. ".") }, { class = "label" })
    div.content[1].content = pandoc.Inlines({ label, pandoc.Space() }) .. div.content[1].content
  end
  return frame and { raw("typst", "#" .. frame .. "["), div, raw("typst", "]") } or nil
end

function filter.Image(image)
  local file = io.open(image.src)
  local head = file and file:read(500):match("<svg[^>]*>") or ""
  if file then file:close() end
  local function side(name) return tonumber(head:match("%s" .. name .. '="([%d.]+)"')) or math.huge end
  if side("width") <= BESIDE then image.classes:insert("beside") end
  if side("height") <= FLAT then image.classes:insert("flat") end
  return image
end

-- No line breaks between a number and its per cent.
function filter.Inlines(inlines)
  for place = 2, #inlines - 1 do
    local number, unit = inlines[place - 1].text or "", inlines[place + 1].text or ""
    if inlines[place].t == "Space" and number:find("%d$") and unit:find("^%%") then inlines[place] = pandoc.Str("\u{a0}") end
  end
  return inlines
end

function filter.Math(formula)
  local text = formula.text:gsub("%s+", " "):gsub('[\\"]', "\\%0")
  return { pandoc.RawInline("typst", '#set math.equation(alt: "' .. text .. '");'), formula }, false
end

function filter.Para(paragraph)
  if not paragraph.content:find_if(function(part) return part.mathtype == "DisplayMath" end) then return nil end
  return { raw("typst", "#block(breakable: false)["), paragraph, raw("typst", "]") }
end

function Pandoc(document)
  local machines = document.meta.machines
  if machines and machines.reference then of_machine = ": " .. pandoc.utils.stringify(machines.reference) end
  document.blocks = document.blocks:walk(filter)
  return document
end
