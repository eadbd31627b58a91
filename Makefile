# make book      the book, built from scratch or from what has changed, in _build/html
# make test      everything that is checked
# make machines  all notebooks on stand-ins for other machines, as a table  (ONLY="06 07", MACHINES="plain avx2")
# make stored-live  the runs that live cells are shown beside  (ONLY=06)
# make serve     the built book in a browser;  make lab  its notebooks, live
# make address   carry the repository's address to launch links and setup cells  (URL=... BRANCH=... by hand)
# make clean     forget what was built (the virtual environment stays)

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PORT ?= 8000
JOBS ?= 2

export OMP_NUM_THREADS := 1
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: book test unit site-tests browser machines stored-live serve lab address clean
.DELETE_ON_ERROR:

book: .venv/ready
	@$(BIN)/python tools/book.py --jobs $(JOBS) $(WHOLE)

test: .venv/ready
	@set -e; now() { date +%s; }; again="$(MAKE) --no-print-directory WHOLE=--whole"; begun=$$(now); \
	$$again unit; units=$$(now); $$again book; book=$$(now); $$again site-tests; site=$$(now); \
	echo "make test, in seconds: unit tests $$((units - begun)), book $$((book - units)), site $$((site - book)), in all $$((site - begun))"

unit: .venv/ready
	$(BIN)/python -m pytest tests --ignore tests/site -n $(JOBS)

site-tests: book browser
	$(BIN)/python -m pytest tests/site -n $(JOBS)

machines: .venv/ready
	$(BIN)/python tools/machines.py --jobs $(JOBS) $(if $(ONLY),--only $(ONLY)) $(if $(MACHINES),--machines $(MACHINES)) $(if $(AGAIN),--again $(AGAIN))

stored-live: .venv/ready
	$(BIN)/python tools/machines.py --store --jobs $(JOBS) $(if $(ONLY),--only $(ONLY))

serve: book
	$(BIN)/python -m http.server $(PORT) --directory _build/html

lab: .venv/ready
	$(BIN)/jupyter lab --notebook-dir .

address: .venv/ready
	@$(BIN)/python tools/address.py $(if $(URL),--url $(URL)) $(if $(BRANCH),--branch $(BRANCH))

clean:
	rm -rf _build _executed

.venv/ready: requirements.txt pyproject.toml
	@date +%s > .began
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@echo $$(($$(date +%s) - $$(cat .began))) > .venv/seconds; rm .began
	@touch $@

browser: .venv/ready
	@$(BIN)/python tools/browser.py --install
