"""The studies behind the book's measured claims, beside the library that they use.

    delta, mgt, …   one study per file: models, tasks, measurements, arms, and the file's layout
    registry        all of them by name; `python -m studies` lists them and makes their files
    runner          how an arm is trained and measured
    results, live   readers of results/, for the chapters
    papers          what the papers state: configurations, tables, theorems
"""
