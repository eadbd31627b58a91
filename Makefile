# make book         builds the book in _build/html, from scratch or from what has changed
# make test         checks everything
# make lint         checks style and types, in seconds
# make machines     runs all notebooks on stand-ins for other machines, and prints a table
#                   (ONLY="06 07" MACHINES="plain avx2")
# make margins      measures how far the proved assertions are from failing  (ONLY=06 SHIFTS=50)
# make stored-live  makes the runs that are shown beside live cells  (ONLY=06)
# make serve        shows the built book in a browser
# make lab          opens the notebooks live
# make model        fetches a small pretrained network, once  (NAME=smollm2-135m)
# make corpus       fetches a text of 4 MB, once  (NAME=king-james)
# make class        makes notebooks, slides, sheets and quizzes for a class
#                   (ONLY="02 05" SEED=file BANK=folder EXAM=1 VARIANTS=ABC FORCE=1)
# make grade        grades what students handed in, and writes the marks  (ONLY=02 COURSE=folder)
# make pdf          prints the book as one PDF, in _build/release
# make epub         makes an EPUB of it, in _build/release
# make zip          packs the site for a USB stick, in _build/release
# make dist         makes and checks the wheel and the source distribution, in _build/release
# make release      makes all of these, and an archive of the class kit
# make address      carries the repository's address to launch links and setup cells
#                   (URL=... BRANCH=... give it by hand)
# make clean        deletes what was built, except the virtual environment

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PORT ?= 8000
JOBS ?= 2

export OMP_NUM_THREADS := 1
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: book test lint unit site-tests browser machines margins stored-live serve lab model corpus class grade pdf epub zip dist release address clean
.DELETE_ON_ERROR:

book: .venv/ready
	@$(BIN)/python tools/book.py --jobs $(JOBS) $(WHOLE)

test: .venv/ready
	@set -e; now() { date +%s; }; again="$(MAKE) --no-print-directory WHOLE=--whole"; \
	begun=$$(now); $$again lint; linted=$$(now); $$again unit; units=$$(now); \
	$$again book; book=$$(now); notebooks=$$(cat _build/notebooks.seconds); \
	$$again site-tests; site=$$(now); \
	echo "make test, in seconds: lint $$((linted - begun)), unit tests $$((units - linted))," \
	"notebooks $$notebooks, book $$((book - units - notebooks)), site $$((site - book))," \
	"in all $$((site - begun))"

lint: .venv/ready
	@$(BIN)/ruff check --no-cache
	@$(BIN)/pyrefly check

unit: browser .venv/colab
	$(BIN)/python -m pytest tests --ignore tests/site -n $(JOBS) --dist worksteal -p no:nbmake

site-tests: book browser
	$(BIN)/python -m pytest tests/site -n $(JOBS) -p no:nbmake

machines: .venv/ready
	$(BIN)/python tools/machines.py --jobs $(JOBS) $(if $(ONLY),--only $(ONLY)) \
	$(if $(MACHINES),--machines $(MACHINES)) $(if $(AGAIN),--again $(AGAIN))

margins: .venv/ready
	$(BIN)/python tools/margins.py $(if $(ONLY),--only $(ONLY)) $(if $(SHIFTS),--shifts $(SHIFTS))

stored-live: .venv/ready
	$(BIN)/python tools/machines.py --store --jobs $(JOBS) $(if $(ONLY),--only $(ONLY))

serve: book
	$(BIN)/python -m http.server $(PORT) --directory _build/html

lab: .venv/ready
	$(BIN)/jupyter lab --notebook-dir . $(if $(filter 0,$(shell id -u)),--allow-root)

model: .venv/ready
	$(BIN)/python -m geolab.models.pretrained $(or $(NAME),smollm2-135m)

corpus: .venv/ready
	$(BIN)/python -m geolab.tasks.corpora $(or $(NAME),king-james)

class: book
	@$(BIN)/python tools/class_kit.py $(if $(ONLY),--only $(ONLY)) $(if $(SEED),--seed $(SEED)) \
	$(if $(BANK),--bank $(BANK)) $(if $(EXAM),--exam) $(if $(VARIANTS),--variants $(VARIANTS)) $(if $(FORCE),--force)

grade: .venv/ready
	@$(BIN)/python tools/grade.py $(ONLY) $(if $(COURSE),--course $(COURSE))

pdf: book browser
	@$(BIN)/python tools/pdf.py

epub: book browser
	@$(BIN)/python tools/epub.py

zip: book
	@$(BIN)/python tools/pack.py

dist: .venv/ready
	@$(BIN)/python -m build --no-isolation --outdir _build/release > /dev/null
	@$(BIN)/python -m twine check --strict _build/release/geolab-*
	@$(BIN)/check-wheel-contents _build/release/geolab-*.whl

# the public kit has a folder of its own: in _build/class lies a teacher's course
release: pdf epub zip dist
	@rm -rf _build/practice
	@$(BIN)/python tools/class_kit.py --practice --out _build/practice
	@$(BIN)/python tools/pack.py --folder _build/practice --kind class

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

# the widgets of Colab's image, beside ours, for one test
.venv/colab: .venv/ready .github/colab.txt
	@$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $@ \
	$$(grep ^ipywidgets .github/colab.txt) ipython_genutils==0.2.0
	@touch $@

browser: .venv/ready
	@$(BIN)/python tools/browser.py --install
