-- Makes the editions of a document as Quarto would: the page in HTML, the paper in Typst's language.
--
-- Run by `pandoc lua`. Reads a job from standard input and prints a line for each edition as soon as it is made, its
-- format and its text. Both are JSON. A job holds:
--   text, filters        the document in Markdown, its cells run, and the Lua filters to apply to it
--   numbered             whether sections have numbers
--   bibliography         the files of sources
--   editions             a list of {format, template, variables, depth}: "html" or "typst", a template's path, its
--                        variables, and the depth of the contents, if there are any
-- Stops with a sentence on standard error, whose first quotation are words of the document that tell the place.

local stringify = pandoc.utils.stringify
local NAMES = { fig = "Figure", tbl = "Table", sec = "Section", eq = "Equation" }
-- What means something to Quarto and nothing here
local UNKNOWN =
  pandoc.List({ "^callout%-", "^panel%-", "^column", "^content%-", "^layout", "^aside$", "^proof$", "^theorem$" })
local FULL_WIDTH = 800 -- pixels of a picture that takes the whole line; all have one scale, so letters have one size

local function fail(problem)
  io.stderr:write(problem)
  os.exit(1)
end

-- What each edition makes of an element -------------------------------------------------------------------------------

-- Returns the text of an image's picture, which lies in the project, and its alternative text.
local function picture(image)
  local file = io.open(image.src, "rb") or fail("the picture '" .. image.src .. "' is not there")
  return file:read("a"), image.attributes["fig-alt"] or stringify(image.caption)
end

local html = {}

function html.image(image)
  local _, alternative = picture(image)
  return pandoc.Image({ pandoc.Str(alternative) }, image.src, "", { class = table.concat(image.classes, " ") })
end

-- In one colour: pandoc takes half a second for the syntax of all languages.
function html.listing(listing) return pandoc.CodeBlock(listing.text, { listing.identifier }) end

local function raw(text) return pandoc.RawBlock("html", text) end

local function id(label) return label ~= "" and ' id="' .. label .. '"' or "" end

-- The caption stays in place while the table below it scrolls, so it cannot be part of the table.
function html.table(element)
  local opening = raw('<figure class="quarto-float-tbl"' .. id(element.identifier) .. "><figcaption>")
  local parts = pandoc.Blocks({ opening }) .. element.caption.long
  element.identifier, element.caption = "", { long = {} }
  element.colspecs = element.colspecs:map(function(column) return { column[1], nil } end)
  return parts .. { raw('</figcaption><div class="scroll">'), element, raw("</div></figure>") }
end

function html.equation(formula, number, label)
  local beside = pandoc.Span("(" .. number .. ")", { class = "equation-number" })
  return { pandoc.Span({ formula, beside }, pandoc.Attr(label, { "equation" })) }
end

local typst = {}

local function inline(text) return pandoc.RawInline("typst", text) end

-- Returns a text on one line as a string of Typst.
local function quoted(text) return '"' .. text:gsub("%s+", " "):gsub("\\", "\\\\"):gsub('"', '\\"') .. '"' end

function typst.image(image)
  local text, alternative = picture(image)
  local drawn = tonumber(text:match("<svg[^>]-%swidth=\"([%d.]+)"))
  local width = drawn and ("%.4g%%"):format(math.min(100, 100 * drawn / FULL_WIDTH)) or "auto"
  return inline(("#box(image(%s, width: %s, alt: %s))"):format(quoted(image.src), width, quoted(alternative)))
end

function typst.equation(formula, number, label)
  return { inline('#numbered-equation("(' .. number .. ')")['), formula, inline(" <" .. label .. ">]") }
end

local LOOKS = { html = html, typst = typst }

-- From a document to an edition --------------------------------------------------------------------------------------

-- Stops at a div that means something to Quarto alone.
local function check(div)
  local names = pandoc.List(div.classes)
  for name in pairs(div.attributes) do names:insert(name) end
  local function is_unknown(name) return UNKNOWN:find_if(function(pattern) return name:find(pattern) end) end
  local name = names:find_if(is_unknown)
  if name then fail("the embedded engine does not know '" .. name .. "'") end
end

-- Returns the blocks that an edition shows, as it shows them, and what a reference to each label says.
local function arranged(blocks, edition, is_numbered)
  local look, counts, section, said = LOOKS[edition], {}, {}, {}
  local filter = { traverse = "topdown", Image = look.image, CodeBlock = look.listing }

  -- Returns the next number of a label's kind.
  local function next_number(label)
    local kind = label:match("^%a+")
    counts[kind] = (counts[kind] or 0) + 1
    said[label] = NAMES[kind] .. "\u{a0}" .. counts[kind]
    return tostring(counts[kind])
  end

  local function numbered_caption(label, inlines)
    next_number(label)
    return { long = { pandoc.Plain(pandoc.Inlines({ pandoc.Str(said[label] .. ":"), pandoc.Space() }) .. inlines) } }
  end

  local function of_this_format(element) return element.format ~= edition and {} or nil end
  filter.RawBlock, filter.RawInline = of_this_format, of_this_format

  function filter.Header(header)
    local level, number = header.level, nil
    if not is_numbered then
      number = "“" .. stringify(header) .. "”"
    elseif not header.classes:includes("unnumbered") then
      for above = 1, level do section[above] = section[above] or 0 end
      section[level] = section[level] + 1
      for below = level + 1, #section do section[below] = nil end
      number = table.concat(section, ".")
      header.content:insert(1, pandoc.Span(number, { class = "header-section-number" }))
      header.content:insert(2, pandoc.Space())
    end
    if number and header.identifier:find("^sec%-") then said[header.identifier] = NAMES.sec .. "\u{a0}" .. number end
    return header
  end

  function filter.Table(element)
    if element.identifier:find("^tbl%-") then
      local inlines = pandoc.utils.blocks_to_inlines(element.caption.long)
      element.caption = numbered_caption(element.identifier, inlines)
    end
    return look.table and look.table(element) or element
  end

  -- Returns a div with the label of a figure or table, and its caption as the last paragraph, as a float.
  local function float(div)
    local label, content = div.identifier, div.content
    local caption = content:remove()
    if not caption or caption.t ~= "Para" then fail("'#" .. label .. "' needs its caption as the last paragraph") end
    local tables = content:filter(function(block) return block.t == "Table" end)
    if label:find("^fig%-") or #tables == 0 then
      return pandoc.Figure(content, numbered_caption(label, caption.content), { label })
    end
    tables[1].identifier, tables[1].caption = label, { long = { pandoc.Plain(caption.content) } }
    return content:walk(filter), false
  end

  -- Returns what the edition shows of a span or div with a condition; nil without one.
  function filter.Span(element)
    if not element.classes:includes("content-visible") then return nil end
    local format = element.attributes["when-format"]
    if #element.attributes ~= 1 or not LOOKS[format] then
      fail("'content-visible' needs when-format=\"html\" or \"typst\"; a div may have when-meta")
    end
    return format == edition and element.content:walk(filter) or {}, false
  end

  function filter.Div(div)
    local shown = filter.Span(div)
    if shown then return shown, false end
    if div.identifier:find("^fig%-") or div.identifier:find("^tbl%-") then return float(div) end
    check(div)
  end

  -- A formula's label stands behind it in the text. Other syntax that is left there is none of pandoc's.
  function filter.Para(paragraph)
    local text, found = stringify(paragraph), pandoc.Inlines({})
    if not (text:find("{", 1, true) or text:find(":::", 1, true)) then return nil end
    for _, part in ipairs(paragraph.content) do
      local written = part.t == "Str" and part.text or ""
      local label = written:match("^{#(eq%-[^ }]+)}$")
      local function is_blank(each) return each and (each.t == "Space" or each.t == "SoftBreak") end
      while label and is_blank(found[#found]) do found:remove() end
      if label and #found > 0 and found[#found].t == "Math" then
        found:extend(look.equation(found:remove(), next_number(label), label))
      elseif written:find("^:::") or written:find("^{[#.=]") then
        fail("'" .. written .. "' is not syntax that either engine knows")
      else
        found:insert(part)
      end
    end
    paragraph.content = found
    return paragraph
  end

  return blocks:walk(filter), said
end

-- Returns the label that a citation refers to within the document; nil for a citation of a source.
local function label_of(cite)
  for _, citation in ipairs(cite.citations) do
    local key = citation.id
    local label = key:sub(1, 1):lower() .. key:sub(2) -- a capital letter at the start is the author's, not the label's
    if NAMES[label:match("^(%a+)%-")] then
      if stringify(cite):gsub("[%[%]]", "") == "@" .. key then return label end
      fail("'@" .. key .. "' stands in a bracket with more; write cross-references alone")
    end
  end
end

-- Returns the citations of sources in blocks as they are printed, by their text, and the list of the sources.
local function cited(blocks, meta)
  local at, asked = {}, pandoc.Blocks({})
  blocks:walk({
    Cite = function(cite)
      local text = stringify(cite)
      if label_of(cite) or at[text] then return end
      asked:insert(pandoc.Plain(cite))
      at[text] = #asked
    end,
  })
  -- Given each citation once and no other text, pandoc takes a fifth of the time.
  local printed = pandoc.utils.citeproc(pandoc.Pandoc(asked, meta)).blocks
  for text, number in pairs(at) do at[text] = printed[number].content end
  return at, #asked > 0 and printed[#asked + 1] or nil
end

-- Returns the blocks with what references and citations say, and the list of sources.
local function referenced(blocks, said, meta)
  local citations, sources = cited(blocks, meta)
  blocks = blocks:walk({
    traverse = "topdown",
    Cite = function(cite)
      local label = label_of(cite)
      if not label then return citations[stringify(cite)], false end
      if not said[label] then
        fail("the cross-reference '@" .. cite.citations[1].id .. "' leads nowhere, or to what has no number")
      end
      return pandoc.Link(said[label], "#" .. label, "", { class = "quarto-xref" }), false
    end,
  })
  local _, place = blocks:find_if(function(block) return block.identifier == "refs" end)
  if sources then blocks[place or #blocks + 1] = sources end
  return blocks
end

-- Stops at a label that stands twice in a page, and at a link within it that leads nowhere (to a source: pandoc warns).
local function check_links(page)
  local labels = {}
  for label in page:gmatch('<[^>]- id="([^"]*)"') do
    if labels[label] then fail("the label '#" .. label .. "' is defined twice") end
    labels[label] = true
  end
  for target in page:gmatch('<a href="#([^"]*)"') do
    if not labels[target] and not target:find("^ref%-") then fail("the link to '#" .. target .. "' leads nowhere") end
  end
end

-- Returns the values of a setting with no, one or several of them.
local function listed(setting)
  if setting == nil or pandoc.utils.type(setting) == "List" then return setting or pandoc.List({}) end
  return pandoc.List({ setting })
end

-- Returns authors as Quarto passes them to templates.
local function by_author(authors)
  return listed(authors):map(function(given)
    if pandoc.utils.type(given) ~= "table" then given = { name = given } end
    local affiliations = listed(given.affiliation):map(function(name) return { name = name } end)
    return { name = { literal = given.name }, affiliations = affiliations, email = given.email }
  end)
end

local job = pandoc.json.decode(io.read("a"), false)
-- Columns of a pipe table with longer lines have widths, by the numbers of dashes (report/markdown_table.py).
local document = pandoc.read(job.text, "markdown", pandoc.ReaderOptions({ columns = 160 }))
for _, path in ipairs(job.filters) do document = pandoc.utils.run_lua_filter(document, path) end
document.meta.bibliography = job.bibliography
document.meta["by-author"] = by_author(document.meta.author)
document.meta.author = document.meta["by-author"]:map(function(author) return author.name.literal end)
for _, edition in ipairs(job.editions) do
  local blocks, said = arranged(document.blocks, edition.format, job.numbered)
  local options = pandoc.WriterOptions({
    template = pandoc.template.compile(io.open(edition.template):read("a"), edition.template),
    variables = edition.variables,
    table_of_contents = edition.depth ~= nil,
    toc_depth = edition.depth or 3,
    section_divs = true,
    html_math_method = "mathml",
    wrap_text = "wrap-preserve",
  })
  local writer = edition.format == "typst" and { format = "typst", extensions = { citations = false } } or "html5"
  blocks = referenced(blocks, said, document.meta)
  local text = pandoc.write(pandoc.Pandoc(blocks, document.meta), writer, options)
  if edition.format == "html" then check_links(text) end
  print(pandoc.json.encode({ edition.format, text }))
  io.flush()
end
