# make book   the book, built from scratch or from what has changed, in _build/html
# make test   everything that is checked
# make serve  the built book in a browser;  make lab  its notebooks, live
# make address  carry the repository's address from _config.yml to launch links and setup cells
# make clean  forget what was built (the virtual environment stays)

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PORT ?= 8000
NOTEBOOKS := $(wildcard book/*.ipynb notebooks/*.ipynb)
EXECUTED := $(NOTEBOOKS:%=_executed/%)
PROSE := _config.yml _toc.yml $(shell find book -type f ! -name '*.pyc')

MAKEFLAGS += --jobs=2  # two notebooks at once, of one thread each
export OMP_NUM_THREADS := 1
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: book test unit site-tests browser serve lab address clean FORCE
.DELETE_ON_ERROR:

book: _build/site.stamp
	@echo "The book is in $(CURDIR)/_build/html/index.html"

test:
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory site-tests

unit: .venv/ready
	$(BIN)/python -m pytest tests --ignore tests/site -n 2

site-tests: book browser
	$(BIN)/python -m pytest tests/site -n 2

serve: book
	$(BIN)/python -m http.server $(PORT) --directory _build/html

lab: .venv/ready
	$(BIN)/jupyter lab --notebook-dir .

address: .venv/ready
	$(BIN)/python tools/address.py

clean:
	rm -rf _build _executed

.venv/ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

browser: .venv/ready
	@$(BIN)/python tools/browser.py --install

# What the outcome of every notebook depends on, by content: it changes when and only when one of these does.
_executed/key: FORCE
	@mkdir -p _executed
	@find geolab results requirements.txt -type f ! -name '*.pyc' | LC_ALL=C sort | xargs cksum > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# Each notebook is executed once, into a copy. A copy that failed does not stay.
_executed/%.ipynb: %.ipynb _executed/key | .venv/ready
	@mkdir -p $(@D)
	@cp $< $@
	@if [ "$$(uname)" != Linux ] && grep -q TRITON_INTERPRET $@; then echo "$@: not executed, Triton needs Linux"; else \
	  GEOLAB_EXPLORE=static $(BIN)/python -m pytest -q --nbmake --overwrite --nbmake-timeout=300 $@; fi

# The site is built from the executed copies, in a tree of its own, so that nothing stale can stay in it.
_build/site.stamp: $(EXECUTED) $(PROSE) | .venv/ready
	@rm -rf _build/source _build/html _build/.doctrees $@
	@mkdir -p _build/source
	@cp -R _config.yml _toc.yml book _build/source/
	@cp -R _executed/. _build/source/
	@sed -i.bak 's/execute_notebooks: force/execute_notebooks: "off"/' _build/source/_config.yml
	$(BIN)/jupyter-book build _build/source --path-output . -W -n --keep-going
	@touch $@
